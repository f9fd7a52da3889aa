from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_events import DEADLINE, FINAL, OPENED_AT, close, opened, publish, sample, window_of, without_time

from pipeline.events import (
    ErrorInfo,
    FinishReason,
    Logprobs,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    Status,
    Token,
)
from pipeline.windows import Window, WindowBook

answers = st.sampled_from(["42", "41", "forty-two", None])


def draws(given_answers: list[str | None], mode: Mode) -> list[Sample]:
    first = mode is Mode.DEEP
    return [
        sample(index, answer, role=Role.FIRST if first and index == 0 else Role.ANSWER)
        for index, answer in enumerate(given_answers)
    ]


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(answers, min_size=1, max_size=5), data=st.data(), mode=st.sampled_from(Mode))
def test_any_order_and_repetition_ends_in_the_same_result(
    texts: list[str | None], data: st.DataObject, mode: Mode
) -> None:
    samples = draws(texts, mode)
    marker = opened(len(samples), mode)
    expected = window_of(marker, samples).settle(5_000)
    shuffled = data.draw(
        st.permutations([*samples, *data.draw(st.lists(st.sampled_from(samples), max_size=4))])
    )
    assert window_of(marker, shuffled).settle(5_000) == expected
    assert expected[-1].status in FINAL


@settings(max_examples=80, deadline=None)
@given(texts=st.lists(answers, min_size=1, max_size=5), data=st.data(), mode=st.sampled_from(Mode))
def test_one_final_result_whatever_the_interleaving_of_samples_and_time(
    texts: list[str | None], data: st.DataObject, mode: Mode
) -> None:
    samples = draws(texts, mode)
    marker = opened(len(samples), mode)
    came = data.draw(st.lists(st.sampled_from(samples), max_size=8))
    steps: list[Opened | Sample] = [*data.draw(st.permutations([marker, *came])), *samples]
    overdue_at = data.draw(st.integers(0, len(steps) * 2))
    window, published, now = Window(), list[Result](), OPENED_AT
    for number, step in enumerate(steps):
        if isinstance(step, Opened):
            window.opened = window.opened or (step if window.closed_at is None else None)
        else:
            window.add(step)
        now = DEADLINE if number >= overdue_at else now + 1
        published += publish(window, now)
    assert [result.status in FINAL for result in published].count(True) == 1
    assert published[-1].status in FINAL
    revisions = [result.revision for result in published]
    assert revisions == ([0, 1] if len(published) == 2 else [1 if mode is Mode.DEEP else 0])
    assert all(result.status is Status.FIRST_ANSWER for result in published[:-1])
    assert (published[-1].answer is None) is (published[-1].status is Status.FAILED)
    assert (published[-1].error is None) is (published[-1].status is not Status.FAILED)
    if now < DEADLINE:
        whole = window_of(marker, samples).settle(now)[-1]
        assert (published[-1].answer, published[-1].status) == (whole.answer, whole.status), "not lossless"


def test_late_samples_change_nothing() -> None:
    window = window_of(opened(1), [sample(0, "42")])
    (result,) = publish(window, 5_000)
    assert (result.status, result.answer) == (Status.DONE, "42")
    assert not window.add(sample(1, "41"))
    assert publish(window, DEADLINE) == []
    assert window == Window(state=Status.DONE, closed_at=5_000)


def test_a_window_does_not_hold_log_probabilities_by_token() -> None:
    window = window_of(opened(1))
    assert window.add(replace(sample(0, "42"), logprobs=Logprobs(1, (Token("42"),), (0, 0), (-0.5, -0.5))))
    assert window.samples[0] == sample(0, "42")


def test_the_first_sample_of_an_index_counts() -> None:
    window = window_of(opened(), [sample(0, "42")])
    assert not window.add(sample(0, "41"))
    assert window.samples[0] == sample(0, "42")


def test_a_decided_vote_closes_early() -> None:
    window = window_of(opened(5), [replace(sample(i, "42"), mean_logprob=-0.01) for i in range(3)])
    window.add(replace(sample(3, "42"), mean_logprob=-0.01))
    (result,) = window.settle(5_000)
    assert (result.status, result.usage.samples_expected, len(result.reasoning)) == (Status.DONE, 5, 4)


@pytest.mark.parametrize(
    ("came", "status", "code"),
    [
        (["42"], Status.PARTIAL_DONE, None),
        (["42", "41", "42"], Status.DONE, None),
        ([], Status.FAILED, "deadline_exceeded"),
        ([None], Status.FAILED, "deadline_exceeded"),
        ([None, None, None], Status.FAILED, "broken_0"),
    ],
)
def test_the_deadline_closes_with_what_there_is(
    came: list[str | None], status: Status, code: str | None
) -> None:
    window = window_of(opened(3), [sample(index, answer) for index, answer in enumerate(came)])
    if len(came) < 3:
        assert window.settle(DEADLINE - 1) == []
    (result,) = window.settle(DEADLINE)
    assert result.status is status
    assert (result.error.code if result.error else None) == code
    assert result.timings.finished_at == DEADLINE
    assert (result.timings.first_sample_at is None) is (not came)


def test_the_deadline_error_can_be_retried() -> None:
    (result,) = window_of(opened(3)).settle(DEADLINE)
    assert result.error is not None and result.error.retriable


def test_only_errors_end_at_once_with_the_first_ones_code() -> None:
    window = window_of(opened(3), [sample(2, None), sample(1, None), sample(0, None)])
    (result,) = window.settle(5_000)
    assert (result.status, result.error) == (Status.FAILED, ErrorInfo("broken_0", "it broke"))


def test_no_answer_in_any_text() -> None:
    silent = [replace(sample(i, "42"), text="") for i in range(2)]
    (result,) = window_of(opened(2), silent).settle(5_000)
    assert result.error is not None and result.error.code == "no_answer"


def test_a_refused_request_fails_at_once() -> None:
    error = ErrorInfo("invalid_request", "prompt is empty")
    (result,) = window_of(opened(0, error=error)).settle(OPENED_AT)
    assert (result.status, result.error, result.revision) == (Status.FAILED, error, 0)
    assert result.metadata == {"a": "b"}


def test_deep_gives_a_first_answer_and_then_the_answer() -> None:
    window = window_of(opened(3, Mode.DEEP), [sample(0, "41", role=Role.FIRST)])
    (first,) = publish(window, 2_500)
    assert (first.revision, first.status, first.answer) == (0, Status.FIRST_ANSWER, "41")
    window.add(sample(1, "42"))
    assert publish(window, 2_600) == []
    window.add(sample(2, "42"))
    (final,) = publish(window, 2_700)
    assert (final.revision, final.status, final.answer) == (1, Status.DONE, "42")


def test_deep_whose_first_answer_comes_last_publishes_both_in_order() -> None:
    late = window_of(opened(2, Mode.DEEP), [sample(1, "42"), sample(0, "42", role=Role.FIRST)])
    assert [(r.revision, r.status) for r in late.settle(5_000)] == [
        (0, Status.FIRST_ANSWER),
        (1, Status.DONE),
    ]


def test_a_broken_first_answer_is_not_published() -> None:
    assert window_of(opened(3, Mode.DEEP), [sample(0, None, role=Role.FIRST)]).settle(5_000) == []


def test_samples_that_overtook_the_marker_wait_for_it() -> None:
    window = window_of(None, [sample(0, "42")])
    assert window.settle(DEADLINE) == [] and window.verdict() is None
    window.opened = opened(1)
    assert [result.answer for result in window.settle(5_000)] == ["42"]


def test_settling_alone_publishes_nothing_and_changes_nothing() -> None:
    window = window_of(opened(1), [sample(0, "42")])
    assert window.settle(5_000) == window.settle(5_000)
    assert without_time(window.settle(5_000)[0]) == without_time(window.settle(6_000)[0])


deadlines = st.lists(st.integers(0, 50), max_size=20)


@settings(deadline=None)
@given(ends=deadlines, ticks=st.lists(st.integers(0, 60), max_size=10).map(sorted), data=st.data())
def test_every_open_window_is_overdue_exactly_once(
    ends: list[int], ticks: list[int], data: st.DataObject
) -> None:
    book = WindowBook({})
    for number, end in enumerate(ends):
        book[str(number), 0].opened = replace(opened(request_id=str(number)), deadline_at=end)
        book.watch((str(number), 0))
    closed = data.draw(st.sets(st.sampled_from(range(len(ends))))) if ends else set()
    for number in closed:
        close(book[str(number), 0], 0)
        book.watch((str(number), 0))
    named: list[tuple[str, int]] = []
    for now in [*ticks, 60]:
        for key in book.overdue(now):
            assert ends[int(key[0])] <= now
            named.append(key)
            close(book[key], now)
            book.watch(key)
    assert sorted(named) == sorted((str(n), 0) for n in range(len(ends)) if n not in closed)


def test_closed_windows_are_forgotten_in_time() -> None:
    book = WindowBook(
        {("a", 0): Window(closed_at=10), ("b", 0): Window(closed_at=20), ("c", 0): Window(opened())}
    )
    assert book.earliest() == OPENED_AT
    assert book.forget(10) == []
    assert [key for key, _ in book.forget(11)] == [("a", 0)]
    assert len(book) == 2
    assert [key for key, _ in book.forget(10**9)] == [("b", 0)]
    assert book.forget(10**9) == [] and len(book) == 1
    assert book.overdue(DEADLINE) == [("c", 0)]


def test_samples_that_all_reached_their_limit_say_so_and_name_the_fix() -> None:
    samples = [
        replace(sample(index, "x"), finish_reason=FinishReason.LENGTH, text="Let us think about")
        for index in range(3)
    ]
    window = window_of(opened(3), samples)
    (result,) = window.settle(0)
    assert (result.status, result.error and result.error.code) == (Status.FAILED, "cut_short")
    assert result.error and "max_new_tokens" in result.error.message
