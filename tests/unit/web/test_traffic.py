from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from page_world import delivery, sample, voted

from agents.web.traffic import Passing, Traffic
from pipeline.events import DeliveryState, Status

NOW = 1_000_000_000
DONE, _ = voted(["1"])


@given(st.lists(st.integers(NOW - 700_000, NOW + 5_000)))
def test_the_series_holds_each_record_of_its_time_once(times: list[int]) -> None:
    traffic = Traffic()
    for at in times:
        traffic.add(DONE.request, at)
    series = traffic.series(NOW)
    begin, end = series.times[0] * 1000, (series.times[-1] + 5) * 1000
    assert round(5 * sum(series.asked)) == sum(begin <= at < end for at in times)
    assert len(series.times) == len(series.asked) == len(series.finished) == len(series.waiting) == 120
    assert end <= NOW


def test_what_is_counted_as_what() -> None:
    traffic, at = Traffic(), NOW - 3_000
    assert DONE.result is not None
    for event in (DONE.request, sample(0, "x"), sample(1, "x"), DONE.result, delivery()):
        traffic.add(event, at)
    traffic.add(delivery(state=DeliveryState.FAILED), at)
    rates = {each: round(10 * traffic.rate(each, NOW)) for each in Passing}
    assert rates == {"asked": 1, "opened": 0, "samples": 2, "finished": 1, "delivered": 1}


def test_a_first_answer_is_no_end() -> None:
    assert DONE.result is not None
    traffic = Traffic()
    traffic.add(replace(DONE.result, status=Status.FIRST_ANSWER), NOW - 2_000)
    assert not traffic.rate(Passing.FINISHED, NOW)


def test_a_level_holds_until_the_next_and_is_unknown_before_the_first() -> None:
    traffic = Traffic()
    traffic.stands(7, NOW - 300_000)
    traffic.stands(2, NOW - 100_000)
    waiting = traffic.series(NOW).waiting
    assert waiting[0] is None
    assert (waiting[61], waiting[90], waiting[119]) == (7, 7, 2)


def test_a_level_from_before_the_picture_holds_in_it() -> None:
    traffic = Traffic()
    for level, ago in ((9, 900_000), (7, 800_000), (2, 10_000)):
        traffic.stands(level, NOW - ago)
    assert traffic.series(NOW).waiting[0] == 7


@given(st.lists(st.integers(0, 10_000_000), min_size=1))
def test_nothing_is_kept_for_longer_than_it_is_shown(times: list[int]) -> None:
    traffic = Traffic()
    for at in sorted(times):
        traffic.add(DONE.request, at)
        traffic.stands(1, at)
    newest = max(times) // 1000
    assert all(second >= newest - 610 for second in traffic._counts[Passing.ASKED])
    assert sum(second < newest - 610 for second in traffic._waiting) <= 1
