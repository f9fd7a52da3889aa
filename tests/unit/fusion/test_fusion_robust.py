"""Samples as no model should give them: the vote ends, stays a number, and is the same bytes in every order."""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, replace

import pytest
from fusion_samples import sample, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Kind, Role, Sample
from pipeline.fusion import (
    Measure,
    ReviewOptions,
    Rule,
    Verdict,
    VoteOptions,
    VotePolicy,
    decided,
    equivalent,
    extract_answer,
    vote,
)
from pipeline.fusion.review import Pair

ESTIMATED = VoteOptions(measure=Measure.ESTIMATED)
POLICIES = [
    *(VotePolicy(rule=rule) for rule in Rule),
    VotePolicy(options=ESTIMATED),
    VotePolicy(options=ESTIMATED, review=ReviewOptions()),
    VotePolicy(kind=Kind.OPEN),
    VotePolicy(kind=Kind.CODE, options=ESTIMATED),
]
LOGPROBS = [None, math.nan, math.inf, -math.inf, 0.0, 3.5, 1e308, -1e308, -745.2, 5e-324, -0.0]
ODD = {
    "one megabyte": "The sum is 3 + 4 = 7, so it goes on. " * 28_000 + "The answer is 7.",
    "one megabyte without a space": "7" * 1_000_000,
    "brackets": "The answer is " + "(" * 100_000 + "7" + ")" * 100_000,
    "boxed brackets": "\\boxed{" + "(" * 100_000 + "}",
    "closing brackets": ")" * 100_000,
    "tower": "The answer is 9^{9^{9^{9^{9}}}}.",
    "5,000 digits": "The answer is " + "7" * 5_000 + ".",
    "5,000 digits as words": "The answer is " + "seven " * 5_000,
    "5,000 numerals": "答案是" + "七亿" * 5_000,
    "lone surrogates": "The answer is \ud800\udc00 \udfff",
    "surrogates in a box": "\\boxed{\ud800}",
    "right to left": "\u202eThe answer is \u202b٧\u202c\u202d.",
    "zero width": "\u200bThe\u200d answer\u2060 is\ufeff \u200b7\u200b.\u200b",
    "only zero width": "\u200b\u200d\u2060\ufeff",
    "combining marks": "The answer is e" + "\u0301" * 10_000,
    "control characters": "The answer is \x00\x07\x1b[31m7\x7f\x85.",
    "private use": "The answer is \ue000\U000f0000.",
    "tags and flags": "The answer is 🇫🇷\U000e0041👩\u200d👩\u200d👧.",
    "other digits": "The answer is ٧ ७ ⁷ ₇ ⑦ Ⅶ 𝟕.",
    "formulas": "The answer is " + "H2O" * 4_000,
    "fences": "~~~\n```\n" * 20_000,
    "options": "选项D正确" * 20_000,
    "functions": "The answer is " + "sinx" * 900,
}


def told(verdict: Verdict) -> bytes:
    return json.dumps(asdict(verdict), sort_keys=True, allow_nan=False).encode()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.rule}-{policy.kind}")
@pytest.mark.parametrize("logprob", LOGPROBS, ids=repr)
def test_any_log_probability_gives_a_number(logprob: float | None, policy: VotePolicy) -> None:
    drawn = [replace(each, mean_logprob=logprob) for each in samples(["7", "7", "8"])]
    drawn.append(sample(3, "8", confidence=0.9))
    verdict = vote(drawn, policy)
    assert verdict.confidence is not None and 0 <= verdict.confidence <= 1
    for found in verdict.votes:
        assert 0 <= found.confidence <= 1
        assert math.isfinite(found.score)
    assert told(verdict) == told(vote(drawn[::-1], policy))
    assert isinstance(decided(drawn, 6, policy), bool)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.rule}-{policy.kind}")
def test_no_sample_and_samples_that_say_nothing(policy: VotePolicy) -> None:
    for drawn in ([], samples([""]), samples(["", " \n\t", "\u200b" * 3] * 13)):
        verdict = vote(drawn, policy)
        assert verdict.answer is None or verdict.answer.strip()
        assert told(verdict) == told(vote(drawn[::-1], policy))
        assert decided(drawn, len(drawn), policy)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.rule}-{policy.kind}")
def test_forty_samples_of_the_same_confidence(policy: VotePolicy) -> None:
    drawn = samples([f"The answer is {index % 20}." for index in range(40)], [0.5] * 40)
    verdict = vote(drawn, policy)
    assert sum(found.count for found in verdict.votes) == 40
    assert len(verdict.reasoning) == 40
    if policy.kind is Kind.ANSWER and policy.review is None:
        assert (verdict.answer, verdict.chosen_sample, verdict.tie) == ("0", 0, True)
    assert told(verdict) == told(vote(random.Random(7).sample(drawn, 40), policy))


@pytest.mark.parametrize("name", ODD)
def test_odd_texts_vote_and_are_themselves(name: str) -> None:
    text = ODD[name]
    drawn = samples([text, text, "The answer is 41."])
    for policy in (VotePolicy(rule=Rule.MAJORITY), VotePolicy(options=ESTIMATED)):
        verdict = vote(drawn, policy)
        counts = {found.answer: found.count for found in verdict.votes}
        assert counts.pop("41") == 1
        assert list(counts.values()) in ([2], [])
        assert told(verdict) == told(vote(drawn[::-1], policy))
    answer = extract_answer(text)
    assert answer is None or equivalent(answer, answer)


@pytest.mark.parametrize("name", ["zero width", "one megabyte"])
def test_what_is_around_an_answer_does_not_hide_it(name: str) -> None:
    assert equivalent(extract_answer(ODD[name]) or "", "7")


def review(index: int, a: int, b: int, text: str) -> Sample:
    return replace(sample(index, text, role=Role.REVIEW), path=Pair(a, b).path)


@pytest.mark.parametrize(
    "reviews",
    [
        [review(4, 2, 0, "The answer is A")],
        [review(4, 2, 0, "The answer is A"), review(5, 2, 0, "The answer is A")],
        [review(4, 2, 0, "Neither."), review(5, 0, 2, "")],
        [review(4, 2, 0, "The answer is C"), review(5, 0, 2, "The answer is 7")],
        [review(4, 2, 2, "The answer is A"), review(5, 2, 2, "The answer is B")],
        [review(4, 90, 91, "The answer is A"), review(5, 91, 90, "The answer is B")],
        [review(4, 0, 1, "The answer is A"), review(5, 1, 0, "The answer is B")],
        [replace(review(4, 2, 0, "The answer is A"), path="review:"), review(5, 0, 2, "The answer is B")],
    ],
    ids=["one order", "one order twice", "silent", "nobody", "itself", "strangers", "one group", "no pair"],
)
def test_reviews_that_compare_nothing_leave_the_vote_as_it_was(reviews: list[Sample]) -> None:
    policy = VotePolicy(review=ReviewOptions())
    plain = samples(["7", "7", "8", "8"], [0.6, 0.6, 0.5, 0.5])
    bare, verdict = vote(plain, policy), vote([*reviews, *plain], policy)
    assert (verdict.answer, verdict.confidence, verdict.votes) == (bare.answer, bare.confidence, bare.votes)
    assert verdict.answer == "7"


DRAWN = st.lists(
    st.builds(
        lambda text, logprob, tokens, review: (text, logprob, tokens, review),
        st.sampled_from(
            ["7", "7.0", "The answer is 7.", "3 + 4 = 7. So 7.", "5 cm", "5", "5 km", "H2O", "H₂O", "", "so"]
        ),
        st.sampled_from([None, math.nan, math.inf, -math.inf, -0.1, -0.2, 2.0]),
        st.integers(0, 3),
        st.sampled_from([None, None, None, (0, 1), (1, 0), (2, 0)]),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(DRAWN, st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_the_same_samples_are_the_same_bytes_in_every_order_and_again(
    rows: list[tuple[str, float | None, int, tuple[int, int] | None]],
    policy: VotePolicy,
    chance: random.Random,
) -> None:
    """Also with two records of one index that differ in what is no text: which one counts is no matter of arrival."""
    drawn = [
        replace(
            sample(index, text) if pair is None else review(index, *pair, "The answer is A"),
            mean_logprob=logprob,
            completion_tokens=tokens,
        )
        for index, (text, logprob, tokens, pair) in enumerate(rows)
    ]
    drawn += [replace(each, mean_logprob=-0.3, completion_tokens=9) for each in drawn[::2]]
    first = told(vote(drawn, policy))
    assert told(vote(drawn, policy)) == first
    assert told(vote(chance.sample(drawn, len(drawn)), policy)) == first
