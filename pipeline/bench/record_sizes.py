"""The records that a request becomes, and how large they are, so that others carry the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.bench.question import question
from pipeline.events import (
    Batch,
    FinishReason,
    InferenceRequest,
    Opened,
    Result,
    Sample,
    SampleTimings,
    TaskGroup,
)
from pipeline.kafka.codec import Codec
from pipeline.scheduling.expand import expand
from pipeline.settings import LimitSettings
from pipeline.windows import Window


@dataclass(frozen=True, slots=True)
class RecordSizes:
    """Bytes of the values that one request becomes."""

    request: int
    batch: int
    sample: int
    result: int


@dataclass(frozen=True, slots=True)
class Records:
    """The records that one request of the load becomes."""

    request: InferenceRequest
    opened: Opened
    batch: Batch
    samples: tuple[Sample, ...]
    result: Result

    def of(self, request_id: str) -> tuple[InferenceRequest, *tuple[Opened | Sample | Result, ...]]:
        """Those that the view keeps, under another id, in the order in which they are written."""
        rest = (self.opened, *self.samples, self.result)
        return replace(self.request, request_id=request_id), *(
            replace(each, request_id=request_id) for each in rest
        )


def records(*, now: int, limits: LimitSettings) -> Records:
    """At a time in ms."""
    request = question(f"{'0' * 9}-0000-0000")
    expansion = expand(request, appended_at=now, now=now, limits=limits)
    groups = tuple(group for _, group in expansion.groups)
    samples = [_sample(group, task.sample_index, now) for group in groups for task in group.tasks]
    batch = Batch(f"{request.request_id}:0:0", request.priority, now, groups)
    return Records(request, expansion.opened, batch, tuple(samples), _result(expansion.opened, samples, now))


def record_sizes(codec: Codec, *, now: int, limits: LimitSettings) -> RecordSizes:
    """Of one request of the load, at a time in ms."""
    made = records(now=now, limits=limits)
    return RecordSizes(
        *(len(codec.encode(each)) for each in (made.request, made.batch, made.samples[0], made.result))
    )


def _result(opened: Opened, samples: list[Sample], now: int) -> Result:
    window = Window(opened)
    for sample in samples:
        window.add(sample)
    return window.settle(now)[-1]


def _sample(group: TaskGroup, index: int, now: int) -> Sample:
    return Sample(
        request_id=group.request_id,
        run=group.run,
        sample_index=index,
        role=group.tasks[0].role,
        path=group.path,
        text="The answer is 12",
        finish_reason=FinishReason.STOP,
        prompt_tokens=6,
        completion_tokens=4,
        mean_logprob=-0.5,
        seed=None,
        temperature=group.temperature,
        timings=SampleTimings(now, now, now, now),
        worker="bench-worker-0",
    )
