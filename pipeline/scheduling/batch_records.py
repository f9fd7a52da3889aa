"""Sample tasks as records of their lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.events import Batch, TaskGroup
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Identity, Output, task_identity
from pipeline.scheduling.batching import pack
from pipeline.settings import BatchingSettings
from pipeline.topics import LANES, MOST_TASKS_IN_BATCH
from pipeline.tracing.spans import Span, SpanKind, after, begin, headers_of, sampled


def batch_records(
    groups: Sequence[tuple[int, TaskGroup]],
    *,
    shard: int,
    codec: Codec,
    limits: BatchingSettings,
    now: int,
    spans: list[Span],
) -> Iterator[Output]:
    """Pack lanes' groups of one shard into batches; a batch's identities are those of its tasks.

    Args:
        groups: each with its lane.
        now: ms.
        spans: takes those of the batches, to be ended when these are written.
    """
    for lane in sorted({lane for lane, _ in groups}):
        sized = ((group, _size(group)) for group_lane, group in groups if group_lane == lane)
        for batch in pack(
            sized,
            max_groups=limits.max_batch,
            max_bytes=limits.max_bytes,
            max_tasks=MOST_TASKS_IN_BATCH,
            max_tokens=limits.max_tokens,
        ):
            head = batch[0]
            batch_id = f"{head.request_id}:{head.run}:{head.tasks[0].sample_index}"
            yield Output(
                LANES[lane],
                shard,
                batch_id.encode(),
                codec.encode(Batch(batch_id, lane, now, tuple(batch))),
                tuple(task_of(group, task.sample_index) for group in batch for task in group.tasks),
                headers_of(_trace(batch, LANES[lane], spans)),
            )


def _trace(batch: Sequence[TaskGroup], lane: str, spans: list[Span]) -> str:
    """The trace of a batch: that of one of its requests, linked to those of the others."""
    traces = dict.fromkeys(group.trace for group in batch if group.trace)
    if not traces:
        return ""
    first = next(filter(sampled, traces), next(iter(traces)))
    requests = len({(group.request_id, group.run) for group in batch})
    span = begin(
        "write batch",
        SpanKind.PRODUCER,
        first,
        links=[trace for trace in traces if trace != first],
        attributes={"messaging.destination.name": lane, "tallystream.batch.requests": requests},
    )
    spans.append(span)
    return after(span)


def task_of(group: TaskGroup, sample_index: int) -> Identity:
    return task_identity(group.request_id, group.run, sample_index)


def _size(group: TaskGroup) -> int:
    texts = sum(len(turn.content.encode()) + 16 for turn in group.messages)
    texts += sum(len(text.encode()) + 8 for text in group.stop) + len(group.tenant.encode())
    texts += len(group.trace.encode())
    return texts + sum(map(len, group.images)) + 32 * len(group.tasks) + 256
