"""Words of a conversation, for its tests."""

from __future__ import annotations

from pipeline.events import InferenceRequest, Session, Status, Turn, TurnKind
from pipeline.kafka.codec import Codec
from pipeline.scheduling.conversation import Waiting

CODEC = Codec()


def request(name: str, prompt: str = "") -> InferenceRequest:
    return InferenceRequest(name, prompt or f"question {name}", session=Session("u", "s"), created_at=1)


def asked_word(name: str, at: int = 0, *, deadline_at: int = 300_000, prompt: str = "") -> Turn:
    value = CODEC.encode(request(name, prompt))
    return Turn("u", "s", name, 0, TurnKind.ASKED, at, deadline_at, appended_at=at, request=value)


def ended_word(name: str, at: int = 0, answer: str | None = "", status: Status = Status.DONE) -> Turn:
    said = f"answer {name}" if answer == "" else answer
    return Turn("u", "s", name, 0, TurnKind.ENDED, at, status=status, answer=said)


def waiting(place: int, name: str, at: int = 0, *, deadline_at: int = 300_000) -> Waiting:
    return Waiting(place, asked_word(name, at, deadline_at=deadline_at), request(name))
