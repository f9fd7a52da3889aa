"""A replay's pace: never quicker than it was told, and no standing still beyond that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.replay.pace import Pace

RATES = st.integers(1, 1_000)
WORK = st.lists(st.tuples(st.floats(0, 30), st.floats(0, 1)), min_size=1, max_size=30)
"""Seconds that each lot takes to write, and how full it is."""


@pytest.mark.parametrize(("rate", "lot"), [(1, 1), (3, 1), (10, 2), (400, 100)])
def test_a_lot_is_a_quarter_of_a_second_and_at_least_one(rate: int, lot: int) -> None:
    assert Pace(rate).lot == lot


@given(RATES, WORK)
def test_no_stretch_of_time_has_more_than_its_rate_and_two_lots(
    rate: int, work: list[tuple[float, float]]
) -> None:
    pace, now = Pace(rate), 1_000.0
    written: list[tuple[float, int]] = []
    for took, full in work:
        now += took
        records = max(1, round(pace.lot * full))
        written.append((now, records))
        now += pace.after(records, now)
    for first in range(len(written)):
        for last in range(first, len(written)):
            count = sum(records for _, records in written[first : last + 1])
            time = written[last][0] - written[first][0]
            assert count <= rate * time + 2 * pace.lot + 1e-6 * rate


@given(RATES, WORK)
def test_it_waits_for_no_longer_than_what_was_written_is_worth(
    rate: int, work: list[tuple[float, float]]
) -> None:
    pace, now = Pace(rate), 0.0
    for took, _ in work:
        now += took
        wait = pace.after(pace.lot, now)
        assert 0 <= wait <= pace.lot / rate + 1e-9
        now += wait
