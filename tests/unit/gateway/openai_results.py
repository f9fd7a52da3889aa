"""Tasks that have ended, as OpenAI's objects are made of them."""

from __future__ import annotations

from typing import Any

from pipeline.events import (
    Chain,
    FinishReason,
    HopTimings,
    InferenceRequest,
    Kind,
    Mode,
    Outcome,
    Result,
    Role,
    SamplingOverrides,
    Status,
    Usage,
    Vote,
)
from pipeline.store.tasks import Task

NOW = 1_900_000_000_000


def chain(index: int, text: str, reason: FinishReason = FinishReason.STOP, role: Role = Role.ANSWER) -> Chain:
    return Chain(index, role, "direct", text, text[-1:] or None, 0.5, reason, "", Outcome.WON)


def result_of(request: InferenceRequest, status: Status = Status.DONE, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "answer": "7",
        "chosen_sample": 1,
        "confidence": 0.9,
        "votes": (Vote("7", 2, 0.8, 0.9, (1, 2)), Vote("8", 1, 0.8, 0.1, (0,))),
        "reasoning": (chain(0, "It is 8"), chain(1, "It is 7"), chain(2, "So 7")),
    }
    return Result(
        request_id=request.request_id,
        run=0,
        revision=1,
        status=status,
        tenant=request.tenant,
        priority=request.priority,
        mode=request.mode,
        kind=request.kind,
        usage=Usage(10, 20, 0, 3, 3),
        timings=HopTimings(NOW, NOW, NOW, NOW, NOW + 1000),
        metadata=request.metadata,
        **fields | changes,
    )


def task_of(status: Status = Status.DONE, n: int | None = None, **changes: Any) -> Task:
    metadata = changes.pop("metadata", {})
    request = InferenceRequest(
        "t-1", "?", mode=Mode.STANDARD, kind=Kind.OPEN, sampling=SamplingOverrides(n=n), metadata=metadata
    )
    result = result_of(request, status, **changes) if status.terminal else None
    return Task(request, status, NOW, NOW, finished_at=NOW + 1000 if result else None, result=result)
