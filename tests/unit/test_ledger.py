from __future__ import annotations

import pytest

from pipeline.health import PartitionHealth, Rows, stalled
from pipeline.kafka.records import Place
from pipeline.ledger import Ledger, Standing

HERE: Place = ("samples", 0)
LIMIT = 120.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    ledger = Ledger(clock)
    ledger.own({HERE: False})
    return ledger


def only(ledger: Ledger) -> PartitionHealth:
    assert ledger.state.partitions is not None
    (each,) = ledger.state.partitions
    return each


def measure(ledger: Ledger, position: int, end: int, metadata: str = "") -> None:
    ledger.measured({HERE: Standing(position, metadata, end)})


def test_nothing_is_owned_until_the_agent_says_so(clock: Clock) -> None:
    ledger = Ledger(clock)
    ledger.own(None)
    assert ledger.state.partitions is None
    ledger.own({})
    assert ledger.state.partitions == ()


def test_the_rows_of_an_engine_are_known_once_it_has_said(ledger: Ledger) -> None:
    assert ledger.state.rows is None
    ledger.drawing(3, 5)
    assert ledger.state.rows == Rows(3, 8)


def test_the_clock_of_an_idle_partition_starts_with_its_first_record(ledger: Ledger, clock: Clock) -> None:
    measure(ledger, 5, 5)
    clock.now = 10_000.0
    measure(ledger, 5, 6)
    assert stalled(ledger.state, clock.now, LIMIT) is None
    clock.now += LIMIT
    measure(ledger, 5, 9)
    assert stalled(ledger.state, clock.now, LIMIT)


def test_an_offset_or_its_metadata_that_moves_is_movement(ledger: Ledger, clock: Clock) -> None:
    measure(ledger, 5, 9)
    for at, position, metadata in ((100.0, 6, ""), (200.0, 6, "1;0:1")):
        clock.now = at
        measure(ledger, position, 9, metadata)
        assert (only(ledger).moved_at, ledger.state.worked_at) == (at, at)
    clock.now = 300.0
    measure(ledger, 6, 9, "1;0:1")
    assert only(ledger).moved_at == 200.0


def test_a_partition_that_comes_back_is_new(ledger: Ledger, clock: Clock) -> None:
    measure(ledger, 5, 9)
    clock.now = 500.0
    ledger.own({})
    ledger.own({HERE: True})
    assert (only(ledger).owned_at, only(ledger).position, only(ledger).held) == (500.0, -1, True)


def test_to_be_held_changes_no_clock(ledger: Ledger, clock: Clock) -> None:
    measure(ledger, 5, 9)
    clock.now = 50.0
    ledger.own({HERE: True})
    assert (only(ledger).owned_at, only(ledger).behind_at, only(ledger).position) == (0.0, 0.0, 5)


def test_after_an_outage_the_clocks_start_anew(ledger: Ledger, clock: Clock) -> None:
    measure(ledger, 5, 9)
    ledger.unreachable()
    clock.now = 1_000.0
    assert stalled(ledger.state, clock.now, LIMIT) is None
    measure(ledger, 5, 9)
    assert stalled(ledger.state, clock.now + LIMIT - 1, LIMIT) is None
    assert stalled(ledger.state, clock.now + LIMIT, LIMIT)


def test_who_waits_and_knows_for_what_is_not_stalled(ledger: Ledger, clock: Clock) -> None:
    asked: list[int] = []
    measure(ledger, 5, 9)
    clock.now = LIMIT
    ledger.waiting(lambda: asked.append(1))()
    assert stalled(ledger.state, clock.now, LIMIT) is None
    assert asked == [1]
