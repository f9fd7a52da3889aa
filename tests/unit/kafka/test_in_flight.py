"""Nothing finished is done again, nothing unfinished is skipped, whatever crashes when."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline.errors import ConfigError
from pipeline.kafka.in_flight import METADATA_LIMIT, InFlight, Position
from pipeline.topics import MOST_TASKS_IN_BATCH

START = 1_000


class Crashes(RuleBasedStateMachine):
    """The tracker beside a model that remembers every record and every finished task."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, int] = {}
        self.done: set[tuple[int, int]] = set()
        self.held: set[int] = set()
        self.committed = Position(START)
        self.committed_done: set[tuple[int, int]] = set()
        self.tracker = InFlight(self.committed)

    def unfinished(self, offset: int) -> list[int]:
        return [task for task in range(self.log[offset]) if (offset, task) not in self.done]

    def next_offset(self) -> int:
        return max([START - 1, *self.held, self.committed.offset - 1]) + 1

    @rule(tasks=st.integers(0, 5) | st.integers(0, MOST_TASKS_IN_BATCH), gap=st.integers(0, 3))
    def add(self, tasks: int, gap: int) -> None:
        """The next record of the log, which is a new one at the log's end."""
        known = [offset for offset in self.log if offset >= self.next_offset()]
        offset = min(known, default=self.next_offset() + gap)
        tasks = self.log.setdefault(offset, tasks)
        if not self.tracker.room(tasks):
            if not known:
                del self.log[offset]
            return
        found = self.tracker.add(offset, tasks)
        self.held.add(offset)
        assert found == sum(1 << task for task in range(tasks) if (offset, task) in self.done)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        if tasks := self.log[offset]:
            task = data.draw(st.integers(0, tasks - 1))
            self.done.add((offset, task))
            self.tracker.finish(offset, task)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish_all_of_one(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)))
        for task in data.draw(st.permutations(self.unfinished(offset))):
            self.done.add((offset, task))
            self.tracker.finish(offset, task)

    @rule()
    def commit(self) -> None:
        self.committed, self.committed_done = self.tracker.position(), set(self.done)

    @rule()
    def crash(self) -> None:
        self.tracker, self.done = InFlight(self.committed), set(self.committed_done)
        self.held = {offset for offset in self.held if offset < self.committed.offset}
        assert self.tracker.position() == self.committed

    @invariant()
    def the_position_is_one_past_the_records_before_the_lowest_unfinished_one(self) -> None:
        lowest = min((o for o in self.held if self.unfinished(o)), default=self.next_offset())
        assert self.tracker.position().offset == max([START, *(o + 1 for o in self.held if o < lowest)])

    @invariant()
    def the_metadata_holds_exactly_what_is_finished_above(self) -> None:
        position = self.tracker.position()
        above = [(offset, task) for offset, task in self.done if offset >= position.offset]
        expected: dict[int, int] = {}
        for offset, task in above:
            expected[offset] = expected.get(offset, 0) | 1 << task
        assert position.finished() == expected

    @invariant()
    def the_metadata_fits(self) -> None:
        assert len(self.tracker.position().metadata) <= METADATA_LIMIT


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@settings(deadline=None)
@given(tasks=st.lists(st.integers(0, 9), min_size=1, max_size=12), data=st.data())
def test_everything_finished_in_any_order_leaves_the_next_offset(
    tasks: list[int], data: st.DataObject
) -> None:
    tracker = InFlight(Position(7))
    for offset, count in enumerate(tasks, 7):
        tracker.add(offset, count)
    every = [(offset, task) for offset, count in enumerate(tasks, 7) for task in range(count)]
    for offset, task in data.draw(st.permutations(every)):
        tracker.finish(offset, task)
        tracker.finish(offset, task)
    assert tracker.position() == Position(7 + len(tasks))


def full_tracker() -> tuple[InFlight, int]:
    """As many of the largest records as fit, each with one task unfinished; and how many."""
    tracker, count = InFlight(Position(0)), 0
    while tracker.room(MOST_TASKS_IN_BATCH):
        tracker.add(count, MOST_TASKS_IN_BATCH)
        for task in range(1, MOST_TASKS_IN_BATCH):
            tracker.finish(count, task)
        count += 1
    return tracker, count


def test_a_full_tracker_fits_the_metadata() -> None:
    tracker, count = full_tracker()
    assert count > 40
    assert len(tracker.position().metadata) <= METADATA_LIMIT < 4_096


def test_a_full_tracker_can_be_taken_up_again() -> None:
    """What fitted before a crash fits after it, record by record."""
    tracker, count = full_tracker()
    successor = InFlight(tracker.position())
    for offset in range(count):
        assert successor.room(MOST_TASKS_IN_BATCH), f"record {offset} is never read again"
        assert successor.add(offset, MOST_TASKS_IN_BATCH).bit_count() == MOST_TASKS_IN_BATCH - 1


def test_the_metadata_of_others_means_nothing() -> None:
    assert Position(5, "somebody else's").finished() == {}
    assert InFlight(Position(5, "somebody else's")).add(5, 3) == 0


def test_a_task_that_a_record_does_not_have() -> None:
    tracker = InFlight(Position(0))
    tracker.add(0, 2)
    for task in (2, -1):
        with pytest.raises(ConfigError, match="none with index"):
            tracker.finish(0, task)
    tracker.finish(9, 0)
    assert tracker.position() == Position(0)


def test_a_finished_record_that_never_comes_again_is_forgotten() -> None:
    """Retention can remove it between two owners."""
    tracker = InFlight(Position(5, "1;1:3"))
    tracker.add(5, 1)
    assert tracker.position() == Position(5, "1;1:3")
    tracker.add(8, 1)
    assert tracker.position() == Position(5)
