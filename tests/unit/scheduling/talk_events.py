"""Words of a conversation, for its tests."""

from __future__ import annotations

from pipeline.events import InferenceRequest, Mode, Session, Status, Turn, TurnKind
from pipeline.kafka.codec import Codec
from pipeline.scheduling.conversation import Waiting

CODEC = Codec()
NEVER_MS = 2**39
"""Beyond the time that tests let pass, and long ago by a real clock."""


def request(name: str, session: str = "s") -> InferenceRequest:
    """One whose sample is asked the question alone."""
    asks = f"question {name}"
    own = Session("u", session)
    return InferenceRequest(name, asks, created_at=1, mode=Mode.FAST, deadline_ms=NEVER_MS, session=own)


def asked_word(name: str, at: int = 0, *, session: str = "s", deadline_at: int = 300_000) -> Turn:
    value = CODEC.encode(request(name, session))
    return Turn("u", session, name, 0, TurnKind.ASKED, at, deadline_at, appended_at=at, request=value)


def ended_word(
    name: str, at: int = 0, *, session: str = "s", answer: str | None = "", status: Status = Status.DONE
) -> Turn:
    said = f"answer {name}" if answer == "" else answer
    return Turn("u", session, name, 0, TurnKind.ENDED, at, status=status, answer=said)


def waiting(place: int, name: str, at: int = 0, *, deadline_at: int = 300_000) -> Waiting:
    return Waiting(place, asked_word(name, at, deadline_at=deadline_at), request(name))
