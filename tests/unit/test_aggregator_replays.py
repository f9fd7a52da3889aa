"""A log that is handled in lots, by owners that die, leads where handling it record by record does: small examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from aggregator_partition import Death, Partition, answer, ends_alone, marker, order, review
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Event, Mode, Sample, Status

MARKER, ORDER = marker(4, Mode.DEEP), order()
DISAGREEING = [answer(index, text, Mode.DEEP) for index, text in enumerate(("42", "41", "41", "42"))]
CANCELLED = {"q": (Status.CANCELLED, None)}
deaths = st.lists(st.none() | st.sampled_from(Death), max_size=8)
"""Of the owner after each record; with ``None`` the record waits for the next one's company."""


@pytest.fixture
def partition() -> Iterator[Partition]:
    partition = Partition()
    yield partition
    partition.close()


def reviews(partition: Partition) -> list[Sample]:
    """Of the round that it has asked for; every judge prefers sample 1."""
    return [review(group, "A" if group.path.startswith("review:1:") else "B") for group in partition.reviews]


def handled(log: Sequence[Event], deaths: Sequence[Death | None]) -> Partition:
    """Whatever its owners have died of, in the end all of it is handled."""
    partition = Partition()
    acknowledged = 0
    for count, death in enumerate(deaths[: len(log)], 1):
        if death is not None and partition.handle(log[acknowledged:count], death):
            acknowledged = count
    partition.handle(log[acknowledged:])
    partition.close()
    return partition


def test_a_first_answer_of_an_owner_that_died_is_told_by_the_next_one(partition: Partition) -> None:
    first = [MARKER, DISAGREEING[0]]
    partition.handle(first, Death.AFTER_RESULTS)
    assert partition.told.states == {}
    partition.handle(first)
    assert [result.status for result in partition.results] == [Status.FIRST_ANSWER]
    assert partition.told.states == {"q": Status.FIRST_ANSWER}


def test_reviews_before_an_order_count_though_who_asked_for_them_died(partition: Partition) -> None:
    complete = [MARKER, *DISAGREEING]
    partition.handle(complete, Death.AFTER_RESULTS)
    log = [*complete, *reviews(partition), ORDER]
    partition.handle(log)
    assert partition.ends() == ends_alone(log) == {"q": (Status.DONE, "41")}


def test_an_order_between_the_reviews_cancels_though_who_asked_for_them_died(partition: Partition) -> None:
    complete = [MARKER, *DISAGREEING]
    partition.handle(complete, Death.AFTER_RESULTS)
    first, second = reviews(partition)
    log = [*complete, first, ORDER, second]
    partition.handle(log)
    assert partition.ends() == ends_alone(log) == CANCELLED


def test_a_sample_that_overtook_its_marker_waits_for_it_through_a_restart(partition: Partition) -> None:
    partition.handle([answer(0, "42")], Death.AFTER_TELLING)
    partition.handle([])
    partition.handle([marker(1)])
    assert partition.ends() == {"q": (Status.DONE, "42")}


@settings(max_examples=40)
@given(expected=st.integers(1, 2), data=st.data(), deaths=deaths)
def test_a_cancelled_request_ends_once_and_as_its_records_stand(
    expected: int, data: st.DataObject, deaths: list[Death | None]
) -> None:
    """Its marker, its samples and the order in any order, in one lot or in several, through crashes."""
    samples = [answer(index, "42") for index in range(expected)]
    log = data.draw(st.permutations([marker(expected), ORDER, *samples]))
    together = handled(log, deaths)
    behind = any(isinstance(event, Sample) for event in log[log.index(ORDER) :])
    assert together.ends() == ends_alone(log) == (CANCELLED if behind else {"q": (Status.DONE, "42")})
    assert len(together.results) == 1


@settings(max_examples=40)
@given(place=st.integers(0, 7), answers=st.permutations(DISAGREEING), deaths=deaths)
def test_a_reviewed_request_is_cancelled_by_what_stands_before_its_last_review(
    place: int, answers: list[Sample], deaths: list[Death | None]
) -> None:
    asked = handled([MARKER, *answers], [])
    log: list[Event] = [MARKER, *answers, *reviews(asked)]
    log.insert(place, ORDER)
    together = handled(log, deaths)
    assert together.ends() == ends_alone(log) == (CANCELLED if place < 7 else {"q": (Status.DONE, "41")})
    finals = [result for result in together.results if result.status.terminal]
    assert len(finals) == 1 and together.results[-1:] == finals
