"""One partition of the aggregator: a changelog, a sink and a progress topic in memory, which outlive its owners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any

from test_aggregator import CODEC, record
from test_window_table import Log
from window_events import opened, sample

from agents.aggregator import Aggregator
from pipeline.errors import BrokerDownError
from pipeline.events import (
    Batch,
    Control,
    ControlAction,
    Event,
    Mode,
    Opened,
    Progress,
    Result,
    Role,
    Sample,
    Status,
    TaskGroup,
)
from pipeline.kafka.records import Identity, Output
from pipeline.scheduling.states import latest, moved
from pipeline.settings import load_settings
from pipeline.topics import SAMPLES
from pipeline.vote_options import vote_options

OPTIONS = vote_options(load_settings(bootstrap="nowhere:1"))
NEVER, LATELY = 2**42, 2**41
"""After this test: a deadline, and when samples end and orders are given; what is old is not waited for."""

End = tuple[Status, str | None]
"""How a request ends, and with which answer."""


def marker(
    expected: int, mode: Mode = Mode.STANDARD, *, request_id: str = "q", deadline: int = NEVER
) -> Opened:
    """Of a request whose answers are reviewed in mode deep if they disagree."""
    made = opened(expected, mode, request_id=request_id)
    return replace(made, deadline_at=deadline, question="What is 6 · 7?", max_new_tokens=100)


def answer(index: int, text: str | None, mode: Mode = Mode.STANDARD, *, request_id: str = "q") -> Sample:
    role = Role.FIRST if mode is Mode.DEEP and index == 0 else Role.ANSWER
    return _lately(sample(index, text, role=role, request_id=request_id))


def review(group: TaskGroup, better: str | None) -> Sample:
    """What a judge says of the two that it is shown: A or B is better, or it breaks."""
    said = sample(group.tasks[0].sample_index, better, role=Role.REVIEW, request_id=group.request_id)
    return replace(_lately(said), path=group.path)


def order(request_id: str = "q") -> Control:
    return Control(request_id, 0, ControlAction.CANCEL, LATELY)


def _lately(one: Sample) -> Sample:
    return replace(one, timings=replace(one.timings, finished_at=LATELY))


class Death(IntEnum):
    """The step after which the process dies; or after which it fails, and goes on."""

    NOT = 0
    BEFORE_WRITING = 1
    AFTER_RESULTS = 2
    AFTER_TABLE = 3
    AFTER_TELLING = 4


class _Died(BaseException):
    pass


class Followed:
    """Where progress goes: every state that is told is the next one, or a later one if an owner died untold."""

    def __init__(self) -> None:
        self.states: dict[str, Status] = {}
        self.sure: set[str] = set()

    def state(self, request_id: str, run: int, status: Status, at: int) -> None:
        known = self.states.get(request_id, Status.PENDING)
        assert status is (moved if request_id in self.sure else latest)(known, status)
        self.states[request_id] = status
        self.sure.add(request_id)

    def write(self, event: Progress) -> None:
        known = self.states.get(event.request_id, Status.PENDING)
        assert event.status is not None
        assert event.status is (known if event.request_id in self.sure else latest(known, event.status))


class Kept(Log):
    """The changelog, and whether its writer dies before or after it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.death, self.failure = Death.NOT, BaseException()

    async def log(self, partition: int, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self.death in (Death.BEFORE_WRITING, Death.AFTER_RESULTS):
            raise self.failure
        await super().log(partition, writes)
        if self.death is Death.AFTER_TABLE:
            raise self.failure


class Partition:
    """What of one partition outlives its owners, and its owner."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.kept = Kept()
        self.written: set[Identity] = set()
        self.results: list[Result] = []
        self.reviews: list[TaskGroup] = []
        self.told = Followed()
        self.aggregator: Any = None
        self.start()

    def start(self) -> None:
        """A new owner of the partition, with what the changelog gives it."""
        if self.aggregator is not None:
            self.aggregator.close()
        changelog: Any = self.kept
        tell: Any = self.told
        self.aggregator = Aggregator(
            load_settings(bootstrap="nowhere:1"), CODEC, (SAMPLES, 0), changelog, tell, OPTIONS
        )
        self.aggregator.written = self.written.__contains__
        self.loop.run_until_complete(self.aggregator.prepare())

    def handle(self, events: Iterable[Event], death: Death = Death.NOT, *, survives: bool = False) -> bool:
        """Handle records together; ``False``: they come again, to a new owner or to the one that Kafka has failed."""
        failure = BrokerDownError("away") if survives else _Died()

        async def emit(outputs: Iterable[Output]) -> None:
            if death is Death.BEFORE_WRITING:
                raise failure
            for out in outputs:
                if out.identities and self.written.issuperset(out.identities):
                    continue
                self.written.update(out.identities)
                event = CODEC.decode(out.value or b"")
                self.results += [event] if isinstance(event, Result) else []
                self.reviews += event.groups if isinstance(event, Batch) else []
            if death is Death.AFTER_RESULTS:
                raise failure

        self.kept.death, self.kept.failure = death, failure
        try:
            self.loop.run_until_complete(self.aggregator.handle([record(event) for event in events], emit))
        except (_Died, BrokerDownError):
            self.told.sure.clear()  # what moved may be kept and not told
        if death is not Death.NOT and not survives:
            self.start()
        return death is Death.NOT

    def ends(self) -> dict[str, End]:
        return {r.request_id: (r.status, r.answer) for r in self.results if r.status.terminal}

    def close(self) -> None:
        self.aggregator.close()
        self.loop.close()


def ends_alone(log: Iterable[Event]) -> dict[str, End]:
    """How requests end when each record is handled by itself, and nobody dies."""
    alone = Partition()
    for event in log:
        alone.handle([event])
    ends = alone.ends()
    alone.close()
    return ends
