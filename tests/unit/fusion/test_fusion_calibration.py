from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.fusion import Calibration
from pipeline.fusion.calibration import brier_score, equal_mass, equal_width, expected_calibration_error

UNIT = st.floats(0, 1)


@st.composite
def maps(draw: st.DrawFn) -> Calibration:
    raw = sorted(draw(st.lists(UNIT, min_size=1, max_size=8, unique=True)))
    calibrated = sorted(draw(st.lists(UNIT, min_size=len(raw), max_size=len(raw))))
    return Calibration(tuple(zip(raw, calibrated, strict=True)), 7)


@settings(max_examples=150, deadline=None)
@given(maps(), UNIT, UNIT)
def test_a_map_is_monotone_and_stays_in_its_knots(calibration: Calibration, a: float, b: float) -> None:
    low, high = calibration.apply(min(a, b)), calibration.apply(max(a, b))
    assert calibration.knots[0][1] <= low <= high <= calibration.knots[-1][1]


@settings(max_examples=50, deadline=None)
@given(maps())
def test_a_map_meets_its_knots_and_survives_its_json(calibration: Calibration) -> None:
    assert Calibration.from_json(calibration.to_json()) == calibration
    for raw, calibrated in calibration.knots:
        assert calibration.apply(raw) == pytest.approx(calibrated)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no calibration map"),
        ("[]", "tallystream_calibration is missing"),
        ('{"tallystream_calibration": 2, "knots": [[0, 1]]}', "version 2"),
        ('{"tallystream_calibration": 1}', "knots"),
        ('{"tallystream_calibration": 1, "knots": []}', "at least one"),
        ('{"tallystream_calibration": 1, "knots": [[0, 2]]}', r"in \[0, 1\]"),
        ('{"tallystream_calibration": 1, "knots": [[0, 0.5], [1, 0.4]]}', "ascend"),
        ('{"tallystream_calibration": 1, "knots": [[0.1]]}', "no calibration map"),
    ],
)
def test_what_is_no_map_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Calibration.from_json(text)


def test_errors_by_hand() -> None:
    confidences, correct = [0.9, 0.9, 0.9, 0.9, 0.2, 0.2], [True, True, True, False, False, False]
    bins = equal_width(confidences, correct, 10)
    assert [(each.count, each.accuracy) for each in bins] == [(2, 0.0), (4, 0.75)]
    assert expected_calibration_error(bins) == pytest.approx((2 * 0.2 + 4 * 0.15) / 6)
    assert equal_mass(confidences, correct, 3) == bins
    assert brier_score(confidences, correct) == pytest.approx((3 * 0.01 + 0.81 + 2 * 0.04) / 6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(UNIT, st.booleans()), max_size=40), st.integers(2, 12))
def test_bins_hold_every_result_once(rows: list[tuple[float, bool]], bins: int) -> None:
    confidences, correct = [p for p, _ in rows], [right for _, right in rows]
    for found in (equal_width(confidences, correct, bins), equal_mass(confidences, correct, bins)):
        assert sum(each.count for each in found) == len(rows)
        assert len(found) <= bins
        assert 0 <= expected_calibration_error(found) <= 1
