"""Medians, percentiles, goals: what a row says of its repeats."""

from __future__ import annotations

import pytest

from pipeline.bench.figures import Figure, figure, percentile
from pipeline.bench.rows import Bound, Goal, Row, shown


def test_a_figure_is_the_median_with_its_extremes() -> None:
    assert figure([3.0, 1.0, 20.0]) == Figure(3.0, 1.0, 20.0)
    assert figure([5.0]) == Figure(5.0, 5.0, 5.0)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        (Bound.AT_MOST, 10.0, True),
        (Bound.AT_MOST, 10.1, False),
        (Bound.AT_LEAST, 10.0, True),
        (Bound.AT_LEAST, 9.9, False),
        (Bound.BELOW, 9.9, True),
        (Bound.BELOW, 10.0, False),
    ],
)
def test_a_goal_is_met_on_its_side_of_the_limit(bound: Bound, value: float, met: bool) -> None:
    assert Row("x", figure([value]), "ms", Goal(bound, 10.0)).met is met


def test_a_row_without_figure_or_goal_is_not_judged() -> None:
    missing = Row("x", None, "ms", Goal(Bound.AT_MOST, 1.0), note="not measured; install: x")
    assert (missing.met, missing.json()["value"], missing.json()["spread"]) == (None, None, None)
    assert Row("x", figure([1.0]), "ms").met is None


def test_a_row_as_json() -> None:
    row = Row("x", Figure(12.3456, 11.0, 13.0), "ms", Goal(Bound.AT_MOST, 90.0, "3 × the relay's"))
    assert row.json() == {
        "name": "x",
        "value": 12.346,
        "unit": "ms",
        "goal": "≤ 90 (3 × the relay's)",
        "met": True,
        "spread": [11.0, 13.0],
        "note": "",
    }


def test_figures_are_shown_with_three_digits() -> None:
    assert [shown(value) for value in (0.0, 0.1234, 9.876, 99.5, 1234.5)] == [
        "0",
        "0.123",
        "9.88",
        "99.5",
        "1,234",
    ]
