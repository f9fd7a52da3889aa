from __future__ import annotations

import random
from dataclasses import replace

import pytest
from fusion_samples import sample, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import FinishReason, Kind, Mode, Outcome, Role, Sample
from pipeline.fusion import ReviewOptions, VoteOptions, VotePolicy, decided, vote
from pipeline.fusion.review import Judgement, Pair, judgement, pairs, win_shares

REVIEWED = VotePolicy(review=ReviewOptions())
TEXTS = ["The answer is 7", "The answer is 7", "The answer is 8", "The answer is 8", "The answer is 9"]


def review(index: int, a: int, b: int, text: str) -> Sample:
    return replace(sample(index, text, role=Role.REVIEW), path=Pair(a, b).path)


def both(index: int, better: int, worse: int) -> list[Sample]:
    """A comparison that is the same in both orders."""
    return [
        review(index, better, worse, "B leaves out a case. The answer is A"),
        review(index + 1, worse, better, "答案是B"),
    ]


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ("The answer is A", 3),
        ("The answer is (B).", 5),
        ("答案是B", 5),
        ("答案是A。", 3),
        ("The answer is C", None),
        ("", None),
    ],
)
def test_what_a_review_says(text: str, better: int | None) -> None:
    found = judgement(review(9, 3, 5, text))
    assert found == (None if better is None else Judgement(Pair(3, 5), better))


def test_who_can_not_judge() -> None:
    good = review(9, 3, 5, "The answer is A")
    for spoilt in (
        replace(good, role=Role.ANSWER),
        replace(good, path="review:3"),
        replace(good, finish_reason=FinishReason.CANCELLED),
        sample(9, "The answer is A", role=Role.REVIEW, error="broken"),
    ):
        assert judgement(spoilt) is None


def test_the_best_groups_meet_in_both_orders() -> None:
    verdict = vote(samples(TEXTS, [0.5, 0.9, 0.6, 0.6, 0.5]), VotePolicy())
    assert pairs(verdict.votes, verdict.reasoning, 2) == (Pair(1, 2), Pair(2, 1))
    assert len(pairs(verdict.votes, verdict.reasoning, 3)) == 6
    assert pairs(verdict.votes[:1], verdict.reasoning, 3) == ()


def test_a_judge_that_prefers_a_place_prefers_nobody() -> None:
    first = [Judgement(Pair(0, 2), 0), Judgement(Pair(2, 0), 2)]
    assert win_shares(first, {0: 0, 2: 1}) == {0: 0.5, 1: 0.5}
    assert win_shares(first[:1], {0: 0, 2: 1}) == {}
    assert win_shares(first, {0: 0, 2: 0}) == {}


def test_reviews_overturn_a_narrow_vote_and_not_a_wide_one() -> None:
    narrow = samples(TEXTS[:4])
    assert vote(narrow, REVIEWED).answer == "7"
    verdict = vote([*narrow, *both(4, 2, 0)], REVIEWED)
    assert (verdict.answer, verdict.chosen_sample) == ("8", 2)
    assert [round(v.review or 0, 2) for v in verdict.votes] == [1.0, 0.0]
    assert [chain.outcome for chain in verdict.reasoning] == [
        *[Outcome.LOST] * 2,
        *[Outcome.WON] * 2,
        *[Outcome.REVIEW] * 2,
    ]
    assert verdict.reasoning[4].note == "review: sample 2 is better than sample 0"
    wide = samples(["The answer is 7"] * 5 + ["The answer is 8"])
    assert vote([*wide, *both(6, 5, 0)], REVIEWED).answer == "7"
    assert vote([*narrow, *both(4, 2, 0)], VotePolicy()).answer == "7"


def test_a_preferred_answer_is_clear_though_few_gave_it() -> None:
    policy = replace(REVIEWED, min_share=0.4)
    three = samples(["The answer is 7", "The answer is 8", "The answer is 9"])
    assert not vote(three, policy).clear
    assert vote([*three, *both(3, 1, 0), *both(5, 1, 2)], policy).clear
    undecided = [review(3, 0, 1, "The answer is A"), review(4, 1, 0, "The answer is A")]
    assert not vote([*three, *undecided], policy).clear


JUDGED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("AB?")), max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    JUDGED,
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from([0.2, 0.5, 0.9]), min_size=5, max_size=5),
)
def test_order_changes_nothing(
    said: list[tuple[int, int, str]], chance: random.Random, sure: list[float]
) -> None:
    came = [
        *samples(TEXTS, sure),
        *(review(5 + i, a, b, f"The answer is {x}") for i, (a, b, x) in enumerate(said)),
    ]
    shuffled = chance.sample(came, len(came))
    assert vote(shuffled, REVIEWED) == vote(came, REVIEWED)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=4),
    st.sampled_from([0.5, 0.9]),
)
def test_what_is_decided_early_is_never_reviewed_or_asked_back_about(
    seen: list[str], rest: list[str], sure: float
) -> None:
    policy = VotePolicy.for_mode(
        Mode.DEEP, Kind.ANSWER, VoteOptions(min_share=0.4, review=ReviewOptions(agreement=0.7))
    )
    every = samples([*seen, *rest], [sure] * (len(seen) + len(rest)))
    if decided(every[: len(seen)], len(every), policy):
        whole = vote(every, policy)
        assert whole.votes[0].count >= 0.7 * len(every)
        assert whole.clear and whole.answer == vote(every[: len(seen)], policy).answer


def test_agreement_that_a_review_could_still_break_is_waited_for() -> None:
    three = samples(["1"] * 3, [0.99] * 3)
    assert decided(three, 5, VotePolicy())
    assert not decided(three, 5, REVIEWED)
    assert decided(samples(["1"] * 4, [0.99] * 4), 5, REVIEWED)
