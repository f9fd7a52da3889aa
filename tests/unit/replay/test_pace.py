"""A replay's pace: never quicker than it was told, and no standing still beyond that."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.replay.pace import Pace

RATES = st.integers(1, 1_000)
WORK = st.lists(st.just(0.0) | st.floats(0, 30), min_size=1, max_size=30)
"""Seconds that each lot takes to write."""


@pytest.mark.parametrize(("rate", "lot"), [(1, 1), (3, 1), (10, 2), (400, 100)])
def test_a_lot_is_a_quarter_of_a_second_and_at_least_one(rate: int, lot: int) -> None:
    assert Pace(rate).lot == lot


@given(RATES, WORK)
def test_no_stretch_of_time_has_more_than_its_rate_and_two_lots(rate: int, work: list[float]) -> None:
    pace, now = Pace(rate), 1_000.0
    written: list[float] = []
    for took in work:
        now += took
        written.append(now)
        now += pace.after(pace.lot, now)
    for first, last in combinations(range(len(written)), 2):
        count = (last - first + 1) * pace.lot
        assert count <= rate * (written[last] - written[first]) + 2 * pace.lot + 1e-6 * rate


@given(RATES, WORK)
def test_it_waits_for_no_longer_than_what_was_written_is_worth(rate: int, work: list[float]) -> None:
    pace, now = Pace(rate), 0.0
    for took in work:
        now += took
        wait = pace.after(pace.lot, now)
        assert 0 <= wait <= pace.lot / rate + 1e-9
        now += wait
