"""Words of a conversation, for its tests."""

from __future__ import annotations

from pipeline.events import InferenceRequest, Mode, Session, Status, Turn, TurnKind
from pipeline.kafka.codec import Codec
from pipeline.scheduling.conversation import Waiting

CODEC = Codec()


def request(name: str, session: str = "s") -> InferenceRequest:
    """One whose sample is asked the question alone."""
    asks = f"question {name}"
    return InferenceRequest(name, asks, mode=Mode.FAST, session=Session("u", session), created_at=1)


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
