from __future__ import annotations

import random

import pytest
from fusion_samples import sample, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import FinishReason, Kind, Mode, Role, Sample
from pipeline.fusion import Rule, VotePolicy, vote

MAJORITY = VotePolicy(rule=Rule.MAJORITY)
POLICIES = [VotePolicy(rule=rule) for rule in Rule]


def groups(texts: list[str], policy: VotePolicy = MAJORITY) -> dict[str, int]:
    return {found.answer: found.count for found in vote(samples(texts), policy).votes}


def test_equal_answers_that_no_algebra_reads_are_one_group() -> None:
    verdict = vote(samples(["[2,5)", "[2,5)", "(2,5)", "[2,5)"]), MAJORITY)
    assert (verdict.answer, verdict.votes[0].count, len(verdict.votes)) == ("[2,5)", 3, 2)


def test_a_vote_without_any_answer() -> None:
    verdict = vote(samples([""] * 8), MAJORITY)
    assert (verdict.answer, verdict.chosen_sample, verdict.confidence) == (None, None, None)
    assert (verdict.votes, verdict.abstained, verdict.consensus) == ((), 8, False)
    assert all(chain.note == "abstains: empty" for chain in verdict.reasoning)


def test_the_empty_answer_never_wins() -> None:
    verdict = vote(samples(["", "", "", "42", "42"]), MAJORITY)
    assert (verdict.answer, verdict.votes[0].count, verdict.abstained) == ("42", 2, 3)


@pytest.mark.parametrize("seed", range(10))
def test_near_decimals_are_never_chained(seed: int) -> None:
    texts = ["0.3333", "0.33333", "0.333333", "1/3", "0.34"]
    drawn = samples(texts)
    random.Random(seed).shuffle(drawn)
    verdict = vote(drawn, MAJORITY)
    assert verdict == vote(samples(texts), MAJORITY)
    assert len(verdict.votes) == 5


@pytest.mark.parametrize("seed", range(10))
def test_units_and_bare_values_do_not_depend_on_order(seed: int) -> None:
    drawn = samples(["5 cm", "5", "5 km", "5 cm", "7"])
    random.Random(seed).shuffle(drawn)
    verdict = vote(drawn, MAJORITY)
    assert verdict.answer == "5 cm"
    assert {found.answer: found.count for found in verdict.votes} == {"5 cm": 2, "5": 1, "5 km": 1, "7": 1}


def test_a_bare_value_joins_the_only_unit() -> None:
    assert groups(["12 元", "12", "13", "13"])["12"] == 2


def test_part_of_an_answer_is_another_answer() -> None:
    assert groups(["1331 and 1728", "1728 and 1331", "1728"]) == {"1331 and 1728": 2, "1728": 1}


def test_lists_group_by_element() -> None:
    verdict = vote(samples(["a,b", "b, a", "a,b,c"]), MAJORITY)
    assert (verdict.answer, verdict.votes[0].count) == ("a,b", 2)


def test_marks_that_mean_something_are_kept() -> None:
    assert len(groups(["2.5", "25", "-3", "3", "x+1", "x-1"])) == 6


def test_labels_merge_by_case_and_punctuation_but_not_by_translation() -> None:
    found = groups(["accept", "Accept.", "接受", "reject"])
    assert sorted(found.values()) == [1, 1, 2]
    assert set(found) <= {"accept", "Accept", "接受", "reject"}


def test_an_answer_is_text() -> None:
    assert vote(samples(["answer: 45"]), MAJORITY).answer == "45"


def test_a_sample_index_counts_once() -> None:
    drawn = samples(["1", "2", "2", "3"])
    again = sample(0, "1", finished_at=900)
    assert vote([*drawn, again, again], MAJORITY) == vote(drawn, MAJORITY)


def test_who_does_not_vote_is_told_why() -> None:
    drawn = [
        sample(0, "4"),
        sample(1, "5", role=Role.REVIEW),
        sample(2, "5", error="generation_failed"),
        sample(3, "5", finish=FinishReason.CANCELLED),
        sample(4, "let us see, 5", finish=FinishReason.LENGTH),
    ]
    verdict = vote(drawn, MAJORITY)
    assert (verdict.answer, verdict.abstained, len(verdict.votes)) == ("4", 1, 1)
    assert [chain.note for chain in verdict.reasoning] == [
        "won: group 1 of 1 with 1 votes",
        "review: judges, does not vote",
        "failed: generation_failed",
        "cancelled before its end",
        "abstains: cut before an answer",
    ]


def test_ties_go_to_confidence_then_to_the_lowest_index() -> None:
    sure = vote(samples(["1", "2"], [0.4, 0.6]), MAJORITY)
    assert (sure.answer, sure.tie) == ("2", True)
    level = vote(samples(["2", "1"], [0.5, 0.5]), MAJORITY)
    assert (level.answer, level.chosen_sample, level.tie) == ("2", 0, True)


def test_the_score_weighs_share_and_confidence() -> None:
    verdict = vote(samples(["1", "1", "2"], [0.2, 0.4, 0.9]), VotePolicy(rule=Rule.SCORED))
    assert [found.score for found in verdict.votes] == pytest.approx(
        [0.7 * 2 / 3 + 0.3 * 0.3, 0.7 / 3 + 0.3 * 0.9]
    )


def test_a_cold_softmax_lets_the_surest_decide() -> None:
    drawn = samples(["1", "1", "2"], [0.2, 0.2, 0.9])
    assert vote(drawn, VotePolicy(rule=Rule.WEIGHTED, temperature=0.05)).answer == "2"
    assert vote(drawn, VotePolicy(rule=Rule.WEIGHTED, temperature=50)).answer == "1"


def test_a_leader_under_the_floor_is_no_consensus() -> None:
    verdict = vote(samples(["1", "2", "3"]), VotePolicy(rule=Rule.MAJORITY, min_share=0.5))
    assert (verdict.answer, verdict.consensus) == ("1", False)


def test_kinds() -> None:
    code = [
        "```python\ndef f(n):\n    return n\n```",
        "Here:\n```\ndef f(k): return k\n```",
        "```python\ndef f(n):",
    ]
    verdict = vote(samples(code), VotePolicy(kind=Kind.CODE, rule=Rule.MAJORITY))
    assert (verdict.votes[0].count, verdict.abstained) == (2, 1)
    assert vote(samples([" Long. Text. "]), VotePolicy(kind=Kind.OPEN)).answer == "Long. Text."


def test_defaults_of_modes() -> None:
    assert VotePolicy.for_mode(Mode.FAST, Kind.ANSWER).rule is Rule.MAJORITY
    assert VotePolicy.for_mode(Mode.STANDARD, Kind.CODE) == VotePolicy(kind=Kind.CODE, rule=Rule.SCORED)


DRAWN = st.lists(
    st.builds(
        lambda text, confidence, role, finish, error: (text, confidence, role, finish, error),
        st.sampled_from(["1", "1.0", "2", "5 cm", "5 km", "5", "", "so", "(1,2)", r"\frac12", "0.5"]),
        st.one_of(st.none(), st.floats(0, 1)),
        st.sampled_from([Role.ANSWER, Role.ANSWER, Role.FIRST, Role.REVIEW]),
        st.sampled_from([FinishReason.STOP, FinishReason.STOP, FinishReason.LENGTH, FinishReason.CANCELLED]),
        st.sampled_from([None, None, None, "generation_failed"]),
    ),
    max_size=12,
).map(
    lambda rows: [
        sample(index, text, confidence=confidence, role=role, finish=finish, error=error)
        for index, (text, confidence, role, finish, error) in enumerate(rows)
    ]
)


@settings(max_examples=120, deadline=None)
@given(DRAWN, st.sampled_from(POLICIES), st.randoms(use_true_random=False))
def test_order_and_duplicates_change_nothing(
    drawn: list[Sample], policy: VotePolicy, chance: random.Random
) -> None:
    shuffled = drawn + chance.sample(drawn, len(drawn) // 2)
    chance.shuffle(shuffled)
    assert repr(vote(shuffled, policy)) == repr(vote(drawn, policy))


@settings(max_examples=120, deadline=None)
@given(DRAWN, st.sampled_from(POLICIES))
def test_the_winner_is_an_answer_of_its_chosen_sample(drawn: list[Sample], policy: VotePolicy) -> None:
    verdict = vote(drawn, policy)
    answers = {chain.sample_index: chain.answer for chain in verdict.reasoning}
    assert verdict.answer is None or answers[verdict.chosen_sample or 0] == verdict.answer
    assert len(verdict.reasoning) == len(drawn)
    assert verdict.confidence is None or 0 <= verdict.confidence <= 1
