"""What an audit is given: every record of the topics, what was committed when, and what the outside saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from pipeline.events import Batch, Delivery, Event, InferenceRequest, Opened, Result, Sample

Place = tuple[str, int]
RunKey = tuple[str, int]
"""Request id and run."""
TaskKey = tuple[str, int, int]
"""Request id, run and sample index."""

_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record; ``at`` is the broker's time in ms."""

    topic: str
    partition: int
    offset: int
    at: int
    event: Event

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's position on one partition; ``finished`` are bitmaps of tasks done at and above it, by offset."""

    offset: int
    finished: Mapping[int, int] = field(default_factory=dict[int, int])

    def passed(self, offset: int, task: int | None = None) -> bool:
        """Whether the record, or one task of it, will not come again."""
        done = task is not None and bool(self.finished.get(offset, 0) >> task & 1)
        return offset < self.offset or done


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the four groups had committed at a time (ms, taken after the answer)."""

    at: int
    positions: Mapping[Place, Committed]

    def passed(self, record: Record, task: int | None = None) -> bool:
        position = self.positions.get(record.place)
        return position is not None and position.passed(record.offset, task)


@dataclass(frozen=True, slots=True)
class Reception:
    """A callback that came with a good signature; ``at`` in ms, ``body`` is a digest."""

    at: int
    body: str


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What can make a callback come again, in ms: a fault of a webhook agent or a broker, or a change of owners."""

    begin: int
    end: int


@dataclass(frozen=True)
class Evidence:
    """All that is known when everything is quiet.

    Attributes:
        accepted: ids of the requests that the broker acknowledged.
        records: of all topics; those of one partition in order of offset.
        dead_letters: where each stands and its code.
        unreadable: records that could not be decoded, as text.
        snapshots: by time; the last one is of the end.
        ends: the end offset of each partition.
        received: by webhook-id.
    """

    accepted: frozenset[str]
    records: Sequence[Record]
    dead_letters: Sequence[str]
    unreadable: Sequence[str]
    snapshots: Sequence[Snapshot]
    ends: Mapping[Place, int]
    received: Mapping[str, Sequence[Reception]]
    rejected: int
    disturbances: Sequence[Disturbance]

    @property
    def end(self) -> Snapshot:
        return self.snapshots[-1]

    @cached_property
    def requests(self) -> Mapping[str, Sequence[Record]]:
        return _grouped(
            (r.event.request_id, r) for r in self.records if isinstance(r.event, InferenceRequest)
        )

    @cached_property
    def opened(self) -> Mapping[RunKey, Sequence[Record]]:
        return _grouped((_run(r.event), r) for r in self.records if isinstance(r.event, Opened))

    @cached_property
    def samples(self) -> Mapping[TaskKey, Sequence[Record]]:
        return _grouped(
            ((*_run(r.event), r.event.sample_index), r) for r in self.records if isinstance(r.event, Sample)
        )

    @cached_property
    def samples_of(self) -> Mapping[RunKey, Sequence[Sample]]:
        return _grouped((_run(r.event), r.event) for r in self.records if isinstance(r.event, Sample))

    @cached_property
    def results(self) -> Mapping[RunKey, Sequence[Record]]:
        return _grouped((_run(r.event), r) for r in self.records if isinstance(r.event, Result))

    @cached_property
    def tasks(self) -> Mapping[TaskKey, Sequence[tuple[Record, int]]]:
        """The batches that hold each task, and its bit there."""
        return _grouped((key, (r, bit)) for r in self.records for bit, key in enumerate(tasks_in(r.event)))

    @cached_property
    def deliveries(self) -> Mapping[str, Sequence[Record]]:
        return _grouped((r.event.delivery_id, r) for r in self.records if isinstance(r.event, Delivery))

    @cached_property
    def deliveries_of(self) -> Mapping[tuple[str, int, int], Sequence[Record]]:
        """By request id, run and revision of the result."""
        return _grouped(
            ((*_run(r.event), r.event.revision), r) for r in self.records if isinstance(r.event, Delivery)
        )

    @cached_property
    def final_at(self) -> Mapping[RunKey, int]:
        """When each request's first final result was written, in ms."""
        return {key: final.at for key in self.results if (final := self.final(key)) is not None}

    def final(self, key: RunKey) -> Record | None:
        return next(iter(self.finals(key)), None)

    def finals(self, key: RunKey) -> Sequence[Record]:
        return [
            r for r in self.results.get(key, ()) if isinstance(r.event, Result) and r.event.status.terminal
        ]


def tasks_in(event: Event) -> list[TaskKey]:
    """The sample tasks of a batch, in the order of their bits; none in any other event."""
    if not isinstance(event, Batch):
        return []
    return [
        (group.request_id, group.run, task.sample_index) for group in event.groups for task in group.tasks
    ]


def _run(event: Opened | Sample | Result | Delivery) -> RunKey:
    return event.request_id, event.run


_K = TypeVar("_K")


def _grouped(pairs: Iterable[tuple[_K, _E]]) -> Mapping[_K, Sequence[_E]]:
    found: defaultdict[_K, list[_E]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)
