"""The demo's questions: all modes, several priorities, and questions that a small model can answer."""

from __future__ import annotations

from pipeline.events import Callback, InferenceRequest, Kind, Mode, SamplingOverrides
from pipeline.ids import new_request_id

_QUESTIONS: tuple[tuple[str, Mode, int, int], ...] = (
    ("What is the capital of France? Answer with one word.", Mode.STANDARD, 3, 12),
    ("What is 7 + 5? Answer with the number only.", Mode.STANDARD, 2, 16),
    ("What color is the sky on a clear day? Answer with one word.", Mode.FAST, 0, 12),
    ("How many days are in a week? Answer with the number only.", Mode.STANDARD, 1, 16),
    ("What is 10 + 10? Answer with the number only.", Mode.DEEP, 0, 48),
    ("What is the largest planet in our solar system? Answer with one word.", Mode.STANDARD, 3, 16),
    ("Which animal says meow? Answer with one word.", Mode.FAST, 4, 12),
    ("What is the capital of Italy? Answer with one word.", Mode.DEEP, 2, 48),
    ("What is the chemical symbol of water? Answer with the symbol only.", Mode.STANDARD, 5, 16),
    ("Name a reason to drink water, in one short sentence.", Mode.OPEN, 3, 40),
    ("How many legs does a spider have? Answer with the number only.", Mode.STANDARD, 4, 16),
    ("What is the opposite of hot? Answer with one word.", Mode.FAST, 1, 12),
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
