"""Orders to cancel: what stands before them in the log counts, and nothing behind them does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_window_rounds import LEVEL, NOW, ask, deep, programs
from window_events import DEADLINE, OPENED_AT, opened, publish, sample, window_of

from pipeline.errors import IllegalMoveError
from pipeline.events import ErrorInfo, Mode, Role, Sample, Status
from pipeline.windows import Cancel, Window, WindowBook

ORDER = Cancel(5_000, "no longer needed")


def test_an_open_window_ends_as_cancelled_with_its_votes_and_no_answer() -> None:
    window = window_of(opened(3), [sample(0, "42")])
    assert window.cancel(ORDER)
    (result,) = window.settle(6_000)
    assert (result.status, result.answer, result.chosen_sample) == (Status.CANCELLED, None, None)
    assert (result.confidence, result.error, result.why) == (None, None, "cancelled: no longer needed")
    assert ([vote.answer for vote in result.votes], result.usage.completion_tokens) == (["42"], 5)
    assert (result.metadata, result.timings.finished_at) == ({"a": "b"}, 6_000)
    assert window.outstanding, "its workers are to be told"


def test_what_comes_behind_the_order_changes_nothing() -> None:
    window = window_of(opened(2), [sample(0, "42")])
    assert window.cancel(ORDER) and not window.cancel(Cancel(5_001))
    assert not window.add(sample(1, "42"))
    (result,) = publish(window, 6_000)
    assert result.status is Status.CANCELLED
    assert not window.cancel(ORDER) and publish(window, DEADLINE) == []
    assert window == Window(state=Status.CANCELLED, closed_at=6_000)


@pytest.mark.parametrize(
    ("came", "order", "status"),
    [
        ([], ORDER, Status.CANCELLED),
        (["42"], ORDER, Status.CANCELLED),
        (["42", "42", "41"], ORDER, Status.DONE),
        ([None, None, None], ORDER, Status.FAILED),
        (["1", "2", "3"], ORDER, Status.DONE),
        (["42"], Cancel(DEADLINE), Status.PARTIAL_DONE),
        ([], Cancel(DEADLINE), Status.FAILED),
        ([], Cancel(DEADLINE - 1), Status.CANCELLED),
    ],
)
def test_what_had_ended_before_the_order_keeps_its_end(
    came: list[str | None], order: Cancel, status: Status
) -> None:
    """However late the aggregator is: it may read the samples, the order and the passed deadline together."""
    window = window_of(opened(3), [sample(index, answer) for index, answer in enumerate(came)])
    assert window.cancel(order)
    (result,) = window.settle(2 * DEADLINE)
    assert result.status is status


def test_a_first_answer_before_the_order_stays_published_and_the_end_follows_it() -> None:
    window = window_of(opened(3, Mode.DEEP), [sample(0, "41", role=Role.FIRST)])
    assert window.cancel(ORDER)
    first, final = publish(window, 6_000)
    assert (first.revision, first.status) == (0, Status.FIRST_ANSWER)
    assert (final.revision, final.status, final.answer) == (1, Status.CANCELLED, None)


def test_an_order_that_overtook_the_marker_ends_the_request_when_that_comes() -> None:
    window = Window()
    assert window.cancel(ORDER) and window.settle(6_000) == []
    window.opened = opened(3)
    (result,) = window.settle(OPENED_AT)
    assert (result.status, result.reasoning) == (Status.CANCELLED, ())


def test_a_refused_request_stays_failed() -> None:
    window = window_of(opened(0, error=ErrorInfo("invalid_request", "prompt is empty")))
    assert window.cancel(ORDER)
    assert [result.status for result in window.settle(6_000)] == [Status.FAILED]


def test_a_review_round_and_programs_are_not_waited_for() -> None:
    waiting, asked, unchecked = deep(*LEVEL), deep(*LEVEL), programs()
    ask(asked)
    for window in (waiting, asked, unchecked):
        assert window.settle(NOW) == [] and window.cancel(Cancel(NOW))
        assert [result.status for result in window.settle(NOW + 1)] == [Status.CANCELLED]
    assert asked.outstanding, "its reviews are still drawn"


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(st.sampled_from(["42", "41", None]), max_size=3),
    behind=st.integers(0, 3),
    mode=st.sampled_from([Mode.FAST, Mode.STANDARD]),
    together=st.booleans(),
)
def test_read_together_or_one_by_one_the_end_is_the_same(
    before: list[str | None], behind: int, mode: Mode, together: bool
) -> None:
    samples = [sample(index, answer) for index, answer in enumerate([*before, *["42"] * 3])][:3]
    steps: list[Sample | Cancel] = [*samples[: len(before)], ORDER, *samples[len(before) :][:behind]]
    window, ends = window_of(opened(3, mode)), list[Status]()
    for number, step in enumerate(steps):
        if isinstance(step, Cancel):
            window.cancel(step)
        else:
            window.add(step)
        if not together or number == len(steps) - 1:
            ends += [result.status for result in publish(window, 6_000)]
    alone = window_of(opened(3, mode), samples[: len(before)])
    alone.cancel(ORDER)
    assert ends == [result.status for result in alone.settle(6_000)]


def test_an_order_that_meets_nothing_is_forgotten_in_time() -> None:
    book = WindowBook({("restored", 0): Window(cancelled=Cancel(10))})
    assert book["new", 0].cancel(Cancel(20))
    book.watch(("new", 0))
    book.watch_orphan(("new", 0), 5)  # a sample came before it
    assert book.forget(10) == []
    assert [key for key, _ in book.forget(11)] == [("restored", 0)]
    assert [key for key, _ in book.forget(21)] == [("new", 0)]
    assert len(book) == 0


def test_an_order_that_met_its_marker_is_not_forgotten_before_its_end() -> None:
    book = WindowBook({("q", 0): Window(cancelled=Cancel(10))})
    book["q", 0].opened = opened()
    book.watch(("q", 0))
    assert book.forget(DEADLINE) == [] and len(book) == 1


def test_samples_without_their_marker_are_forgotten_after_a_restart_too() -> None:
    book = WindowBook({("q", 0): window_of(None, [sample(0, "42")])})
    assert book.forget(2_000) == []
    assert [key for key, _ in book.forget(2_001)] == [("q", 0)]


def test_what_is_no_legal_move_is_not_published() -> None:
    window = window_of(opened(1), [sample(0, "42")])
    window.state = Status.PENDING
    with pytest.raises(IllegalMoveError):
        window.settle(5_000)


def test_states_follow_what_comes_and_what_is_published() -> None:
    window = window_of(opened(3, Mode.DEEP))
    assert window.state is Status.PENDING
    window.add(replace(sample(0, "41"), role=Role.FIRST))
    assert window.state is Status.RUNNING
    publish(window, 2_000)
    assert window.state is Status.FIRST_ANSWER
    publish(window, DEADLINE)
    assert window.state is Status.PARTIAL_DONE
