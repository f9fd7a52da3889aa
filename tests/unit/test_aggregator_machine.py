"""Samples reordered, repeated, late and missing, orders to cancel at any point, and crashes and failures
between any two steps of the aggregator.

A machine of Hypothesis plays the log of one partition into the real aggregator, with a changelog and a sink
of this process. A crash after any step loses what was in memory and brings unacknowledged records again.
"""

from __future__ import annotations

from collections import Counter

from aggregator_partition import NEVER, Death, Partition, answer, ends_alone, marker, order, review
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.events import (
    Control,
    Event,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    TaskGroup,
)

REQUESTS = {"a": (3, Mode.STANDARD), "b": (5, Mode.DEEP), "c": (1, Mode.FAST), "d": (4, Mode.DEEP)}
ANSWERS = {"d": ("42", "41", "41", "42")}
USUAL_ANSWERS = ("42", "42", "41", None, "42")


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
            self.log.append(marker(expected, mode, request_id=request_id, deadline=deadline))

    @rule(request_id=st.sampled_from(sorted(REQUESTS)), index=st.integers(0, 4), repeats=st.integers(1, 2))
    def sample_comes(self, request_id: str, index: int, repeats: int) -> None:
        expected, mode = REQUESTS[request_id]
        if index < expected:
            text = ANSWERS.get(request_id, USUAL_ANSWERS)[index]
            self.log += [answer(index, text, mode, request_id=request_id)] * repeats

    @rule(request_id=st.sampled_from(sorted(REQUESTS)), repeats=st.integers(1, 2))
    def order_to_cancel_comes(self, request_id: str, repeats: int) -> None:
        self.log += [order(request_id)] * repeats

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
            self.log += [review(group, better)] * repeats

    @rule(most=st.sampled_from([0, 1, 2, 3, 6, 50]), death=st.sampled_from(Death), survives=st.booleans())
    def handle(self, most: int, death: Death, survives: bool = False) -> None:
        """The next records, handled together; a process that dies or fails acknowledges none of them."""
        batch = self.log[self.acknowledged : self.acknowledged + most]
        if self.partition.handle(batch, death, survives=survives):
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

    @invariant()
    def no_end_is_told_but_the_one_that_is_published(self) -> None:
        told = {key: state for key, state in self.partition.told.states.items() if state.terminal}
        assert told == {key: self.partition.ends()[key][0] for key in told}

    def teardown(self) -> None:
        """What came is handled in the end: every opened request whose samples are all there is finished."""
        self.handle(len(self.log), Death.NOT)
        for group in self.reviews:
            self.review(group, "A")
        self.handle(len(self.log), Death.NOT)
        ends = self.partition.ends()
        markers = [event for event in self.log if isinstance(event, Opened)]
        for mark in markers:
            came = {
                e.sample_index
                for e in self.log
                if isinstance(e, Sample) and e.request_id == mark.request_id and e.role is not Role.REVIEW
            }
            ordered = any(isinstance(e, Control) and e.request_id == mark.request_id for e in self.log)
            if len(came) == mark.expected or mark.deadline_at != NEVER or ordered:
                assert mark.request_id in ends
        alone = ends_alone(self.log)
        for mark in markers:
            if mark.deadline_at == NEVER:
                assert ends.get(mark.request_id) == alone.get(mark.request_id), "the order of the log decides"
        self.partition.close()


TestAggregations = Aggregations.TestCase
TestAggregations.settings = hypothesis_settings(max_examples=60, stateful_step_count=25, deadline=None)
