"""Markers and samples of one request, for the tests of windows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.events import (
    ErrorInfo,
    FinishReason,
    Kind,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    SampleTask,
    SampleTimings,
    Status,
    TaskGroup,
)
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.waiting import Assigned
from pipeline.windows import Window

OPENED_AT, DEADLINE = 1_000, 300_000


def opened(
    expected: int = 3, mode: Mode = Mode.STANDARD, *, request_id: str = "q", error: ErrorInfo | None = None
) -> Opened:
    return Opened(
        request_id=request_id,
        run=0,
        tenant="t",
        priority=3,
        mode=mode,
        kind=Kind.ANSWER,
        created_at=900,
        opened_at=OPENED_AT,
        deadline_at=DEADLINE,
        expected=expected,
        metadata={"a": "b"},
        error=error,
    )


def sample(index: int, answer: str | None, *, role: Role = Role.ANSWER, request_id: str = "q") -> Sample:
    """A sample with this answer; ``None`` is one that broke with code ``broken_<index>``."""
    return Sample(
        request_id=request_id,
        run=0,
        sample_index=index,
        role=role,
        path="direct",
        text="" if answer is None else f"So it follows. The answer is {answer}.",
        finish_reason=FinishReason.ERROR if answer is None else FinishReason.STOP,
        prompt_tokens=10 + index,
        completion_tokens=5,
        mean_logprob=-0.1 * (index + 1),
        seed=index,
        temperature=0.5,
        timings=SampleTimings(1_100, 1_200, 1_250, 2_000 + index),
        worker="w",
        error=ErrorInfo(f"broken_{index}", "it broke") if answer is None else None,
    )


def publish(window: Window, now: int) -> list[Result]:
    """Settle, and note what was published, as the aggregator does."""
    results = window.settle(now)
    for result in results:
        window.published(result, now)
    return results


def close(window: Window, now: int) -> None:
    """End it, whatever has come."""
    window.opened = window.opened or opened(error=ErrorInfo("gone", "nobody asks any more"))
    window.published(window.settle(DEADLINE)[-1], now)


def window_of(marker: Opened | None, samples: Iterable[Sample] = ()) -> Window:
    window = Window(opened=marker)
    for one in samples:
        window.add(one)
    return window


def without_time(result: Result) -> Result:
    return replace(result, timings=replace(result.timings, finished_at=0))


FINAL = {Status.DONE, Status.PARTIAL_DONE, Status.FAILED}


def assigned(top: int = 0) -> Assigned:
    """A task of it in a worker's hands, which asks for so many log-probabilities by token."""
    mark = opened()
    group = TaskGroup(
        request_id="r" * 128,
        run=0,
        tenant="t",
        priority=3,
        mode=mark.mode,
        kind=mark.kind,
        path="direct",
        messages=(),
        temperature=0.5,
        top_p=1.0,
        max_new_tokens=1,
        created_at=0,
        deadline_at=1,
        tasks=(SampleTask(0),),
        top_logprobs=top,
    )
    work = Work("batches.3", 0, 0, 0, 0)
    return Assigned(group, group.tasks[0], Finished(("batches.3", 0), 0, 0), 0, 3, work)
