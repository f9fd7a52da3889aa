"""Samples reordered, repeated, late and missing, orders to cancel at any point, and crashes between any two steps of
the aggregator.

A machine of Hypothesis plays the log of one partition into the real aggregator, with a changelog and a sink
of this process. A crash after any step loses what was in memory and brings unacknowledged records again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from test_aggregator import CODEC, record
from test_window_table import Log
from window_events import opened, sample

from agents.aggregator import Aggregator
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
from pipeline.scheduling.states import moved
from pipeline.settings import load_settings
from pipeline.topics import SAMPLES
from pipeline.vote_options import vote_options

REQUESTS = {"a": (3, Mode.STANDARD), "b": (5, Mode.DEEP), "c": (1, Mode.FAST), "d": (4, Mode.DEEP)}
ANSWERS = {"d": ("42", "41", "41", "42")}
USUAL_ANSWERS = ("42", "42", "41", None, "42")
OPTIONS = vote_options(load_settings(bootstrap="nowhere:1"))
NEVER, ORDERED_AT = 2**42, 2**41
"""After this test; an order whose time is over would be forgotten."""


class Death(IntEnum):
    """The step after which the process dies."""

    NOT = 0
    BEFORE_WRITING = 1
    AFTER_RESULTS = 2
    AFTER_TABLE = 3


class _Died(BaseException):
    pass


class Followed:
    """Where progress goes: every state that is told has to be a legal move."""

    def __init__(self) -> None:
        self.states: dict[str, Status] = {}

    def state(self, request_id: str, run: int, status: Status, at: int) -> None:
        known = self.states.get(request_id)
        self.states[request_id] = status if known is None else moved(known, status)

    def write(self, event: Progress) -> None:
        assert event.status is self.states[event.request_id]


class Partition:
    """What of one partition outlives its owners, and its owner."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.kept = Log()
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

    def handle(self, events: Iterable[Event], death: Death = Death.NOT) -> bool:
        """Handle records together; ``False``: the owner died, and there is a new one."""

        async def emit(outputs: Iterable[Output]) -> None:
            if death is Death.BEFORE_WRITING:
                raise _Died
            for out in outputs:
                if out.identities and self.written.issuperset(out.identities):
                    continue
                self.written.update(out.identities)
                event = CODEC.decode(out.value or b"")
                self.results += [event] if isinstance(event, Result) else []
                self.reviews += event.groups if isinstance(event, Batch) else []
            if death is Death.AFTER_RESULTS:
                raise _Died

        try:
            self.loop.run_until_complete(self.aggregator.handle([record(event) for event in events], emit))
        except _Died:
            self.start()
            return False
        if death is Death.AFTER_TABLE:
            self.start()
        return death is not Death.AFTER_TABLE

    def ends(self) -> dict[str, Status]:
        return {result.request_id: result.status for result in self.results if result.status.terminal}

    def close(self) -> None:
        self.aggregator.close()
        self.loop.close()


class Aggregations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Event] = []
        self.acknowledged = 0
        self.partition = Partition()

    @property
    def results(self) -> list[Result]:
        return self.partition.results

    @property
    def reviews(self) -> list[TaskGroup]:
        return self.partition.reviews

    @rule(request_id=st.sampled_from(sorted(REQUESTS)), deadline=st.sampled_from([NEVER, 1_500]))
    def marker_comes(self, request_id: str, deadline: int) -> None:
        expected, mode = REQUESTS[request_id]
        if not any(isinstance(event, Opened) and event.request_id == request_id for event in self.log):
            marker = opened(expected, mode, request_id=request_id)
            self.log.append(
                replace(marker, deadline_at=deadline, question="What is 6 · 7?", max_new_tokens=100)
            )

    @rule(request_id=st.sampled_from(sorted(REQUESTS)), index=st.integers(0, 4), repeats=st.integers(1, 2))
    def sample_comes(self, request_id: str, index: int, repeats: int) -> None:
        expected, mode = REQUESTS[request_id]
        if index < expected:
            role = Role.FIRST if mode is Mode.DEEP and index == 0 else Role.ANSWER
            answer = ANSWERS.get(request_id, USUAL_ANSWERS)[index]
            self.log += [sample(index, answer, role=role, request_id=request_id)] * repeats

    @rule(request_id=st.sampled_from(sorted(REQUESTS)), repeats=st.integers(1, 2))
    def order_to_cancel_comes(self, request_id: str, repeats: int) -> None:
        self.log += [Control(request_id, 0, ControlAction.CANCEL, ORDERED_AT)] * repeats

    @rule(deadline=st.sampled_from([NEVER, 1_500]))
    def all_answers_come_and_disagree(self, deadline: int) -> None:
        self.marker_comes("d", deadline)
        for index in range(4):
            self.sample_comes("d", index, 1)

    @rule(better=st.sampled_from(["A", "B", None]), repeats=st.integers(1, 2), data=st.data())
    def review_comes(self, better: str | None, repeats: int, data: st.DataObject) -> None:
        """Of a task that was written; late, repeated or broken as every sample can be."""
        if self.reviews:
            self.review(data.draw(st.sampled_from(self.reviews)), better, repeats)

    def review(self, group: TaskGroup, better: str | None, repeats: int = 1) -> None:
        index = group.tasks[0].sample_index
        came = {(e.request_id, e.sample_index) for e in self.log if isinstance(e, Sample)}
        if (group.request_id, index) not in came:
            said = sample(index, better, role=Role.REVIEW, request_id=group.request_id)
            self.log += [replace(said, path=group.path)] * repeats

    @rule(most=st.sampled_from([0, 1, 2, 3, 6, 50]), death=st.sampled_from(Death))
    def handle(self, most: int, death: Death) -> None:
        """The next records, handled together; a process that dies acknowledges none of them."""
        batch = self.log[self.acknowledged : self.acknowledged + most]
        if self.partition.handle(batch, death):
            self.acknowledged += len(batch)

    @invariant()
    def no_request_has_two_results_of_one_revision_or_two_final_ones(self) -> None:
        assert max(Counter((r.request_id, r.revision) for r in self.results).values(), default=0) <= 1
        finals = Counter(r.request_id for r in self.results if r.status.terminal)
        assert max(finals.values(), default=0) <= 1

    @invariant()
    def no_review_is_asked_for_twice(self) -> None:
        asked = Counter((group.request_id, group.tasks[0].sample_index) for group in self.reviews)
        assert max(asked.values(), default=0) <= 1
        assert all(count == 2 for count in Counter(group.request_id for group in self.reviews).values())

    def teardown(self) -> None:
        """What came is handled in the end: every opened request whose samples are all there is finished."""
        self.handle(len(self.log), Death.NOT)
        for group in self.reviews:
            self.review(group, "A")
        self.handle(len(self.log), Death.NOT)
        ends = self.partition.ends()
        for marker in [event for event in self.log if isinstance(event, Opened)]:
            came = {
                e.sample_index
                for e in self.log
                if isinstance(e, Sample) and e.request_id == marker.request_id and e.role is not Role.REVIEW
            }
            ordered = any(isinstance(e, Control) and e.request_id == marker.request_id for e in self.log)
            if len(came) == marker.expected or marker.deadline_at != NEVER or ordered:
                assert marker.request_id in ends
        self.as_record_by_record(ends)
        self.partition.close()

    def as_record_by_record(self, ends: dict[str, Status]) -> None:
        """Whatever came together and whoever died: but for the clock, the order of the log alone decides."""
        alone = Partition()
        for event in self.log:
            alone.handle([event])
        for marker in [event for event in self.log if isinstance(event, Opened)]:
            if marker.deadline_at == NEVER:
                assert ends.get(marker.request_id) is alone.ends().get(marker.request_id)
        alone.close()


TestAggregations = Aggregations.TestCase
TestAggregations.settings = hypothesis_settings(max_examples=60, stateful_step_count=25, deadline=None)


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    expected=st.integers(1, 2),
    data=st.data(),
    deaths=st.lists(st.sampled_from([None, *Death]), min_size=5, max_size=5),
)
def test_a_cancelled_request_ends_once_and_as_its_records_stand(
    expected: int, data: st.DataObject, deaths: list[Death | None]
) -> None:
    """Its marker, its samples and the order in any order, in one lot or in several, through crashes."""
    marker = replace(opened(expected), deadline_at=NEVER)
    order = Control("q", 0, ControlAction.CANCEL, ORDERED_AT)
    log = data.draw(st.permutations([marker, order, *(sample(index, "42") for index in range(expected))]))
    together, alone = Partition(), Partition()
    acknowledged = 0
    for count, death in enumerate(deaths[: len(log)], 1):
        if death is not None and together.handle(log[acknowledged:count], death):
            acknowledged = count
    together.handle(log[acknowledged:])
    for event in log:
        alone.handle([event])
    behind = any(isinstance(event, Sample) for event in log[log.index(order) :])
    assert together.ends() == alone.ends() == {"q": Status.CANCELLED if behind else Status.DONE}
    assert len(together.results) == 1
    together.close()
    alone.close()
