"""How large the pipeline's records are, so that the relay carries the same."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.bench.question import question
from pipeline.events import Batch, FinishReason, Opened, Sample, SampleTimings, TaskGroup
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


def record_sizes(codec: Codec, *, now: int, limits: LimitSettings) -> RecordSizes:
    """Of one request of the load, at a time in ms."""
    request = question(f"{'0' * 9}-0000-0000")
    expansion = expand(request, appended_at=now, now=now, limits=limits)
    groups = tuple(group for _, group in expansion.groups)
    samples = [_sample(group, task.sample_index, now) for group in groups for task in group.tasks]
    batch = Batch(f"{request.request_id}:0:0", request.priority, now, groups)
    return RecordSizes(
        len(codec.encode(request)),
        len(codec.encode(batch)),
        len(codec.encode(samples[0])),
        len(codec.encode(_result(expansion.opened, samples, now))),
    )


def _result(opened: Opened, samples: list[Sample], now: int):
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
