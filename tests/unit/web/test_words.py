from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.web import words
from pipeline.events import DeliveryState, Outcome, Status


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1, "0 ms"),
        (0.004, "4 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (9.994, "9.99 s"),
        (12.34, "12.3 s"),
        (59.96, "1 min"),
        (98.4, "1 min 38 s"),
        (599.6, "10 min"),
        (3_569, "59 min"),
        (3_571, "1 h"),
        (84_599, "23 h"),
        (84_601, "1 d"),
        (864_000, "10 d"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert words.duration(seconds) == told


@given(st.floats(0, 1e8))
def test_no_duration_is_told_as_nothing_of_a_larger_unit_or_in_long(seconds: float) -> None:
    told = words.duration(seconds)
    assert not told.startswith("0 ") or told == "0 ms"
    assert len(told) <= 10


@pytest.mark.parametrize(
    ("ms", "told"),
    [(10_000, "now"), (9_100, "now"), (7_000, "3 s ago"), (12_000, "in 2 s"), (-50_000, "1 min ago")],
)
def test_how_long_ago(ms: int, told: str) -> None:
    assert words.ago(ms, 10_000) == told


def test_every_state_has_a_word_and_a_tone() -> None:
    for state in [*Status, *DeliveryState]:
        assert words.state_word(state)
        assert words.state_tone(state) in {"wait", "run", "good", "part", "bad", "off"}
    assert words.state_word(Status.PENDING) == "waiting"
    assert words.state_word(DeliveryState.PENDING) == "pending"
    assert all(words.outcome_word(each) for each in Outcome)


def test_numbers() -> None:
    assert [words.rate(each) for each in (0, 0.42, 9.96, 12.6)] == ["0", "0.4", "10.0", "13"]
    assert words.amount(1, "token") == "1 token"
    assert words.amount(1_024, "token") == "1,024 tokens"
    assert words.full_time(1_234) == "1970-01-01T00:00:01.234Z"
