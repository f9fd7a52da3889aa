"""What one reader is told of one task, from what is stored and what comes in. Pure: time is passed in.

The store's records, those of ``progress`` and the live ones overlap, and topics are not read in step. Each topic's
records come in the order of their offsets, so one position says what was told, and what comes twice is known by it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.delivery.payload import wanted
from pipeline.delivery.schedule import untried
from pipeline.events import (
    Delivery,
    InferenceRequest,
    Opened,
    Progress,
    ProgressKind,
    Result,
    Sample,
    Status,
)
from pipeline.live.position import Position
from pipeline.live.record import Heard, Record
from pipeline.scheduling.states import latest

WAIT_MS = 10_000
"""From the result, for what becomes of its callback at the first attempt, and for samples that were read later; from
the moment that a callback is sent again, for its first attempt then."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The task's state; no place to go on from, as it is told again to who comes back."""

    status: Status


@dataclass(frozen=True, slots=True)
class Tokens:
    """What was added to a sample: a preview, the sample's own event has the text."""

    sample: int
    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class Happened:
    """A sample, votes, a result or a delivery."""

    record: Record
    position: Position


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens or votes before this are missing; ``dropped``: how many events, if that is known."""

    dropped: int | None


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more is told."""


Told = Moved | Tokens | Happened | Gap | End


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is left of a task's records on ``progress``.

    Attributes:
        records: tokens in order, and the newest votes.
        lost_to: offset of the last record that may be missing; -1: none is.
        lost: how many are; ``None``: not known.
    """

    records: Sequence[Record] = ()
    lost_to: int = -1
    lost: int | None = 0


@dataclass(slots=True)
class Feed:
    """
    Attributes:
        run: which run is told; a newer one takes over.
        position: how far the reader has come.
        status: the state that it knows; ``None`` before it knows any.
        ended: ``End`` was told.
        due: ms of the gateway's clock at which ``tick`` ends it, if nothing else does.
    """

    run: int
    position: Position = field(default_factory=Position)
    status: Status | None = None
    ended: bool = False
    due: int | None = None
    _samples: set[int] = field(default_factory=set[int])
    _settled: set[int] = field(default_factory=set[int])
    _final: Result | None = None
    _asked_at: int = 0

    def join(
        self, status: Status, stored: Iterable[Record], remembered: Remembered, now: int
    ) -> Iterator[Told]:
        """Tell what was, to one who comes for the first time or comes back; call it once, before ``take``.

        Args:
            status: the newest that is known.
            stored: what the store has of this run.
            now: ms, as those of the records.
        """
        by_topic: dict[str, list[Record]] = {}
        for record in stored:
            if record.event.run == self.run:
                by_topic.setdefault(record.topic, []).append(record)
                status = _after(status, record)
                self._note(record.event)
        self.status = status
        yield Moved(status)
        if self._final is None and self.position.progress < remembered.lost_to:
            yield Gap(remembered.lost)
        recent = [record for record in remembered.records if record.event.run == self.run]
        topics = [sorted(records, key=_offset) for records in (*by_topic.values(), recent)]
        yield from self._all(heapq.merge(*topics, key=lambda record: record.at))
        yield from self._finish(now)

    def take(self, records: Iterable[Record], now: int) -> Iterator[Told]:
        """Tell what has come; tokens of one sample that came on each other's heels are one event."""
        for told in self._all(records):
            yield told
            if isinstance(told, Happened):
                yield from self._finish(now)
            if self.ended:
                return
        yield from self._finish(now)

    def tick(self, now: int) -> Iterator[Told]:
        """End it, when its callback, or a sample, was waited for long enough."""
        if self.due is not None and now >= self.due:
            yield from self._end()

    def _all(self, records: Iterable[Record]) -> Iterator[Told]:
        joined: Tokens | None = None
        for record in records:
            for told in self._one(record):
                if isinstance(told, Tokens) and joined is not None and joined.sample == told.sample:
                    joined = Tokens(told.sample, joined.text + told.text, told.position)
                    continue
                if joined is not None:
                    yield joined
                    joined = None
                if isinstance(told, Tokens):
                    joined = told
                else:
                    yield told
        if joined is not None:
            yield joined

    def _one(self, record: Record) -> Iterator[Told]:
        event = record.event
        if event.run < self.run:
            return
        if event.run > self.run:
            self.run, self.status, self._final, self.due = event.run, Status.PENDING, None, None
            self._samples.clear()
            self._settled.clear()
            yield Moved(Status.PENDING)
        if isinstance(event, InferenceRequest | Opened):
            return
        if isinstance(event, Progress) and not self._wanted(event):
            return
        status = self.status or Status.PENDING
        if (to := _after(status, record)) is not status:
            self.status = to
            yield Moved(to)
        if isinstance(event, Progress) and event.kind is ProgressKind.STATE:
            return
        if self.position.has(record.topic, record.offset):
            self._note(event)  # another gateway has told it, which was ahead of this one
            return
        self.position = self.position.past(record.topic, record.offset)
        if isinstance(event, Progress) and event.kind is ProgressKind.TOKENS:
            yield Tokens(event.sample_index or 0, event.text, self.position)
            return
        self._note(event)
        yield Happened(record, self.position)

    def _note(self, event: Heard) -> None:
        match event:
            case Sample():
                self._samples.add(event.sample_index)
            case Result() if event.status.terminal:
                self._final = event
            case Delivery() if untried(event):
                self._settled.discard(event.revision)
                self._asked_at = event.updated_at
            case Delivery():
                self._settled.add(event.revision)
            case _:
                pass

    def _wanted(self, event: Progress) -> bool:
        """Not of what has ended, nor of a sample whose text was told, nor a vote that nobody took part in."""
        if self._final is not None:
            return False
        match event.kind:
            case ProgressKind.TOKENS:
                return event.sample_index not in self._samples
            case ProgressKind.VOTES:
                return bool(event.votes)
            case ProgressKind.STATE:
                return True

    def _finish(self, now: int) -> Iterator[Told]:
        """End it, or say when it ends, once its final result was told."""
        if (final := self._final) is None:
            return
        told = {chain.sample_index for chain in final.reasoning} <= self._samples
        if told and (not wanted(final) or final.revision in self._settled):
            yield from self._end()
        elif self.due is None:
            self.due = min(now, max(final.timings.finished_at, self._asked_at)) + WAIT_MS
            yield from self.tick(now)

    def _end(self) -> Iterator[Told]:
        if not self.ended:
            self.ended = True
            yield End()


def _after(status: Status, record: Record) -> Status:
    """The state that a reader knows after this record."""
    event = record.event
    match event:
        case Result():
            return event.status if event.status.terminal else latest(status, event.status)
        case Sample():
            return latest(status, Status.RUNNING)
        case Progress():
            told = event.status if event.kind is ProgressKind.STATE else Status.RUNNING
            return status if told is None else latest(status, told)
        case _:
            return status


def _offset(record: Record) -> int:
    return record.offset
