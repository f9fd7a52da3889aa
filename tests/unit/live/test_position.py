from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvalidRequestError
from pipeline.live.position import Position
from pipeline.topics import DELIVERIES, PROGRESS, REQUESTS, SAMPLES

offsets = st.integers(-1, 2**62)


@given(st.tuples(offsets, offsets, offsets, offsets))
def test_a_position_is_its_text(parts: tuple[int, int, int, int]) -> None:
    position = Position(*parts)
    if position != Position():
        assert Position.parse(str(position)) == position


def test_who_was_told_of_a_record_has_it_and_all_before_it_on_its_topic() -> None:
    position = Position().past(SAMPLES, 5).past(PROGRESS, 9)
    assert str(position) == "s5.p9"
    assert position.has(SAMPLES, 5) and position.has(SAMPLES, 0) and not position.has(SAMPLES, 6)
    assert not position.has(DELIVERIES, 0) and not position.has(REQUESTS, 0)


def test_a_position_never_goes_back() -> None:
    assert Position(samples=5).past(SAMPLES, 3) == Position(samples=5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "s5.",
        ".s5",
        "s5s6",
        "s5.s6",
        "S5",
        "x5",
        "s-1",
        "s05",
        "s٣",
        "s5\n",
        "s" + "9" * 20,
        "p1." * 60,
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        Position.parse(text)
    assert refused.value.field == "Last-Event-ID"
