"""The audit's own vote against the one that it judges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_events import opened, sample, window_of

from pipeline.chaos.recount import disagreement
from pipeline.events import ErrorInfo, Mode, Result, Role, Sample, Status
from pipeline.settings import load_settings
from pipeline.vote_options import vote_options
from pipeline.windows import Asked

OPTIONS = vote_options(load_settings(bootstrap="nowhere:1"))

answers = st.lists(st.sampled_from(["7", "7", "8", "9", "11", "nothing", None]), min_size=1, max_size=6)
logprobs = st.lists(st.sampled_from([None, -0.01, -0.3, -0.3, -2.0]), min_size=6, max_size=6)
judged = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["A", "B", "7"])), max_size=8
)


def drawn(texts: list[str | None], sure: list[float | None]) -> list[Sample]:
    return [
        replace(
            sample(index, text),
            text="" if text in (None, "nothing") else f"The answer is {text}",
            mean_logprob=sure[index],
        )
        for index, text in enumerate(texts)
    ]


def reviews(said: list[tuple[int, int, str]], answers: int) -> list[Sample]:
    """As the pipeline asks them: of samples that voted, every pair in an order once."""
    asked = {(a, b): better for a, b, better in said if a != b and max(a, b) < answers}
    return [
        replace(
            sample(answers + place, better, role=Role.REVIEW),
            path=f"review:{a}:{b}",
            text=f"The answer is {better}",
        )
        for place, ((a, b), better) in enumerate(asked.items())
    ]


def outcome(
    texts: list[str | None], sure: list[float | None], said: list[tuple[int, int, str]], mode: Mode
) -> tuple[Result, list[Sample]]:
    voting = drawn(texts, sure)
    groups = [text for text in texts if text not in (None, "nothing")]
    kept = [
        pair
        for pair in said
        if max(pair[:2]) < len(texts) and len({texts[pair[0]], texts[pair[1]]} & set(groups)) == 2
    ]
    came = [*voting, *(reviews(kept, len(texts)) if mode in (Mode.DEEP, Mode.OPEN) else [])]
    window = window_of(opened(len(texts), mode), came)
    window.options, window.asked = OPTIONS, Asked(0, 0)
    return window.settle(5_000)[-1], came


@settings(max_examples=400, deadline=None)
@given(texts=answers, sure=logprobs, said=judged, mode=st.sampled_from(Mode))
def test_both_say_the_same(
    texts: list[str | None], sure: list[float | None], said: list[tuple[int, int, str]], mode: Mode
) -> None:
    result, came = outcome(texts, sure, said, mode)
    assert disagreement(result, came) == ""


def test_a_review_that_overturns_the_vote_is_told_from_one_that_does_not() -> None:
    texts: list[str | None] = ["7", "7", "8", "8", "9"]
    sure: list[float | None] = [-0.2, -0.21, -0.2, -0.2, -0.3]
    result, came = outcome(texts, sure, [(0, 2, "B"), (2, 0, "A")], Mode.DEEP)
    assert (result.answer, result.status) == ("8", Status.DONE)
    plain, _ = outcome(texts, sure, [], Mode.DEEP)
    assert plain.answer == "7"
    assert disagreement(plain, came) == "the answer is not the vote's"


def test_an_answer_where_there_is_none_is_found() -> None:
    result, came = outcome(["7", "8", "9"], [None] * 3, [], Mode.STANDARD)
    assert (result.status, result.answer) == (Status.NEEDS_CLARIFICATION, None)
    assert disagreement(result, came) == ""
    bold = replace(result, status=Status.DONE, answer="7", chosen_sample=0)
    assert "not clear" in disagreement(bold, came)


@pytest.mark.parametrize("error", [None, ErrorInfo("broken", "it broke")])
def test_a_review_in_one_order_alone_says_nothing(error: ErrorInfo | None) -> None:
    texts: list[str | None] = ["7", "7", "8", "8", "9"]
    voting = drawn(texts, [-0.2, -0.21, -0.2, -0.2, -0.3, None])
    first, second = reviews([(0, 2, "B"), (2, 0, "A")], 5)
    for came in ([*voting, first], [*voting, first, replace(second, error=error or ErrorInfo("x", "y"))]):
        window = window_of(opened(5, Mode.DEEP), came)
        window.options, window.asked = OPTIONS, Asked(0, 0)
        assert window.settle(5_000)[-1].answer == "7"
