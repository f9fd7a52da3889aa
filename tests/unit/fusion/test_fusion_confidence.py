from __future__ import annotations

import math
import random

import pytest
from fusion_samples import sample
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Sample
from pipeline.fusion import (
    Calibration,
    Measure,
    Rule,
    VoteOptions,
    VotePolicy,
    decided,
    estimate_confidence,
    extract_answer,
    vote,
)
from pipeline.fusion.confidence import NEUTRAL, Confidence, pooled

ESTIMATED = VotePolicy(options=VoteOptions(measure=Measure.ESTIMATED))
DERIVATIONS = [
    "3 + 5 = 8. The answer is 8.",
    "2 * 4 = 8. The answer is 8.",
    "10 - 2 = 8. The answer is 8.",
    "16 / 2 = 8. The answer is 8.",
    "2^3 = 8. The answer is 8.",
]


def of(text: str, logprob: float | None = -0.2) -> Confidence:
    return estimate_confidence(text, extract_answer(text), logprob)


def drawn(texts: list[str], confidence: float | None = 0.95) -> list[Sample]:
    return [sample(index, text, confidence=confidence) for index, text in enumerate(texts)]


def test_without_other_evidence_it_is_the_probability_of_the_tokens() -> None:
    assert of("The answer is 8").value == pytest.approx(math.exp(-0.2))
    assert of("The answer is 8", None).value == NEUTRAL
    assert of("The answer is 8", math.nan).value == NEUTRAL


def test_steps_that_hold_raise_it_and_steps_that_do_not_lower_it() -> None:
    right, bare, wrong = of("3 + 5 = 8. So 8."), of("So 8."), of("3 + 6 = 8. So 8.")
    assert right.value > bare.value > wrong.value
    assert ((right.right, right.wrong), (wrong.right, wrong.wrong)) == ((1, 0), (0, 1))


def test_a_repeated_step_counts_once() -> None:
    assert of("3 + 5 = 8. " * 9 + "So 8.") == of("3 + 5 = 8. So 8.")


@pytest.mark.parametrize(
    ("text", "contradictions"),
    [
        (r"The answer is 7. No: the answer is \boxed{8}.", 1),
        ("答案是7。不对，答案是8。", 1),
        ("3 + 4 = 7. The answer is 9.", 1),
        ("The answer is 6. 3 + 4 = 7. The answer is 9.", 2),
        (r"The answer is 8. So \boxed{8.0}.", 0),
        ("The result is 7. The answer is 8.", 0),
        ("3 * 8 = 24, as it should be. The answer is 8.", 0),
        ("1/4 = 0.25. The answer is 25%.", 0),
        ("3 + 4 = 7. The answer is B.", 0),
    ],
)
def test_a_text_against_itself(text: str, contradictions: int) -> None:
    found = of(text)
    assert found.contradictions == contradictions
    assert (found.consistency < NEUTRAL) is (contradictions > 0)


def test_different_derivations_of_one_value_raise_it() -> None:
    one, two = of("3 + 5 = 8. So 8."), of("3 + 5 = 8, and 2 * 4 = 8. So 8.")
    assert (one.ways, two.ways) == (1, 2)
    assert two.value > one.value
    assert of("3 + 5 = 8, and 5 + 3 = 8. So 8.").ways == 1


PARTS = st.lists(st.floats(0, 1), max_size=5)


@settings(max_examples=100, deadline=None)
@given(PARTS, st.floats(0, 1), st.floats(0, 1))
def test_the_combination_is_bounded_and_monotone(rest: list[float], a: float, b: float) -> None:
    low, high = pooled([*rest, min(a, b)]), pooled([*rest, max(a, b)])
    assert 0 <= low <= high <= 1


def test_five_bare_copies_are_trusted_less_than_five_derivations() -> None:
    collapsed = vote(drawn(["The answer is 8"] * 5, 0.999), ESTIMATED)
    derived = vote(drawn(DERIVATIONS, 0.999), ESTIMATED)
    assert collapsed.answer == derived.answer == "8"
    assert (collapsed.confidence or 0) < (derived.confidence or 0) - 0.1
    # Five copies of a text that the model was sure of are hardly more than one.
    single = vote(drawn(["The answer is 8"], 0.999), ESTIMATED)
    assert (collapsed.confidence or 0) == pytest.approx(single.confidence, abs=0.01)


def test_copies_do_not_outvote_derivations() -> None:
    texts = ["The answer is 6"] * 3 + DERIVATIONS[:2]
    assert vote(drawn(texts, 0.99), ESTIMATED).answer == "8"
    assert vote(drawn(texts, 0.99), VotePolicy()).answer == "6"


def test_copies_of_an_unsure_text_are_worth_something() -> None:
    sure = vote([sample(i, "7") for i in range(5)], ESTIMATED).confidence or 0
    assert sure > (vote([sample(0, "7")], ESTIMATED).confidence or 0)


def test_chains_tell_the_parts() -> None:
    (chain,) = vote(drawn(DERIVATIONS[:1], None), ESTIMATED).reasoning
    assert chain.note.endswith("confidence 0.67 (tokens 0.50, steps 1/1 right)")
    assert "confidence" not in vote(drawn(DERIVATIONS[:1]), VotePolicy()).reasoning[0].note


def test_a_calibrated_verdict_publishes_what_the_map_says() -> None:
    level = VotePolicy(options=VoteOptions(calibration=Calibration(((0.5, 0.25),))))
    plain, calibrated = vote(drawn(DERIVATIONS), VotePolicy()), vote(drawn(DERIVATIONS), level)
    assert calibrated.confidence == 0.25
    assert (calibrated.answer, calibrated.votes) == (plain.answer, plain.votes)


TEXTS = st.sampled_from(
    [
        "8",
        "The answer is 8",
        "The answer is 6",
        "6",
        *DERIVATIONS,
        "3 + 3 = 6. So 6.",
        "3 + 3 = 7. So 6.",
        "",
        "5 cm",
        "5",
    ]
)
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from([None, 0.05, 0.5, 0.9, 0.99])), min_size=1, max_size=8)
POLICIES = st.sampled_from([VotePolicy(rule=rule, options=ESTIMATED.options) for rule in Rule])


@settings(max_examples=80, deadline=None)
@given(ROWS, POLICIES, st.randoms(use_true_random=False))
def test_order_changes_nothing(
    rows: list[tuple[str, float | None]], policy: VotePolicy, chance: random.Random
) -> None:
    every = [sample(i, text, confidence=p) for i, (text, p) in enumerate(rows)]
    shuffled = chance.sample(every, len(every))
    assert repr(vote(shuffled, policy)) == repr(vote(every, policy))


@settings(max_examples=300, deadline=None)
@given(ROWS, ROWS, POLICIES)
def test_an_answer_that_is_decided_never_changes(
    seen: list[tuple[str, float | None]], rest: list[tuple[str, float | None]], policy: VotePolicy
) -> None:
    every = [sample(i, text, confidence=p) for i, (text, p) in enumerate([*seen, *rest[:3]])]
    if decided(every[: len(seen)], len(every), policy):
        assert vote(every, policy).answer == vote(every[: len(seen)], policy).answer
