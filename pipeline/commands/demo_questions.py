"""The demo's questions: all modes, several priorities, and questions that a small model can answer."""

from __future__ import annotations

from pipeline.events import Callback, InferenceRequest, Kind, Mode, SamplingOverrides
from pipeline.ids import new_request_id

_QUESTIONS: tuple[tuple[str, Mode, int, int], ...] = (
    ("What is the capital of France? Answer with one word.", Mode.STANDARD, 3, 48),
    ("What is 7 + 5? Answer with the number only.", Mode.STANDARD, 2, 48),
    ("What is the capital of Japan? Answer with one word.", Mode.FAST, 0, 48),
    ("How many days are in a week? Answer with the number only.", Mode.STANDARD, 1, 48),
    ("What is 10 + 10? Answer with the number only.", Mode.DEEP, 0, 96),
    ("What is the capital of Germany? Answer with one word.", Mode.STANDARD, 3, 48),
    ("What is the capital of Spain? Answer with one word.", Mode.FAST, 4, 48),
    ("What is the capital of Italy? Answer with one word.", Mode.DEEP, 2, 96),
    ("What is the chemical symbol of water? Answer with the symbol only.", Mode.STANDARD, 5, 48),
    ("Name a reason to drink water, in one short sentence.", Mode.OPEN, 3, 96),
    ("How many legs does a spider have? Answer with the number only.", Mode.STANDARD, 4, 48),
    ("What is the opposite of hot? Answer with one word.", Mode.FAST, 1, 48),
)


def demo_requests(callback_url: str, now: int) -> list[InferenceRequest]:
    """One request a question; every one wants callbacks, mode deep for its first answer too."""
    return [
        InferenceRequest(
            request_id=new_request_id(now),
            prompt=question,
            created_at=now,
            tenant="demo",
            priority=priority,
            mode=mode,
            kind=Kind.OPEN if mode is Mode.OPEN else Kind.ANSWER,
            sampling=SamplingOverrides(max_new_tokens=longest, seed=7),
            callback=Callback(
                callback_url, events=("first_answer", "done") if mode is Mode.DEEP else ("done",)
            ),
        )
        for question, mode, priority, longest in _QUESTIONS
    ]
