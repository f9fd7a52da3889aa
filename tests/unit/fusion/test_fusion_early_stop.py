from __future__ import annotations

import pytest
from fusion_samples import sample, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.fusion import Rule, VotePolicy, decided, vote

MAJORITY = VotePolicy(rule=Rule.MAJORITY)
TEXTS = ["1", "1.0", "2", "3", "5", "5 cm", "5 km", "", "6"]


@pytest.mark.parametrize(
    ("texts", "expected", "answer"),
    [
        (["1", "1"], 3, True),
        (["1", "2"], 3, False),
        (["1"], 3, False),
        (["1", "1", "1"], 5, True),
        (["1", "1", "2"], 5, False),
        (["1", "1"], 4, False),
        (["", ""], 3, False),
        (["1", "2", "3"], 3, True),
        ([], 1, False),
    ],
)
def test_majority(texts: list[str], expected: int, answer: bool) -> None:
    assert decided(samples(texts), expected, MAJORITY) is answer


def test_two_of_three_sure_samples_decide_the_default_of_standard() -> None:
    assert decided(samples(["1", "1"], [0.9, 0.9]), 3, VotePolicy())
    assert not decided(samples(["1", "1"], [0.05, 0.05]), 3, VotePolicy())


def test_a_group_of_bare_and_united_values_may_still_split() -> None:
    drawn = samples(["5", "5 cm", "5"])
    assert not decided(drawn, 4, MAJORITY)
    assert vote([*drawn, sample(3, "5 km")], MAJORITY).votes[0].count == 2


def test_a_floor_that_could_still_be_missed_is_waited_for() -> None:
    drawn = samples(["1", "1", "1"])
    assert decided(drawn, 5, VotePolicy(rule=Rule.MAJORITY, min_share=0.6))
    assert not decided(drawn, 5, VotePolicy(rule=Rule.MAJORITY, min_share=0.7))


def test_an_unsure_vote_for_a_leader_that_lives_on_its_confidence_can_cost_it_the_lead() -> None:
    texts, confidences = ["a"] * 3 + [str(number) for number in range(30)], [1.0] * 3 + [0.0] * 30
    assert not decided(samples(texts, confidences), 35, VotePolicy())
    rest = [sample(33, "a", confidence=0.0), sample(34, "b", confidence=1.0)]
    assert vote([*samples(texts, confidences), *rest], VotePolicy()).answer == "b"


DRAW = st.tuples(st.sampled_from(TEXTS), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
FEW = st.tuples(st.sampled_from(["1", "1.0", "2", "5", "5 cm"]), st.sampled_from([0.1, 0.5, 0.9]))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(FEW, min_size=1, max_size=9),
    st.lists(DRAW, min_size=1, max_size=4),
    st.sampled_from(list(Rule)),
    st.sampled_from([0.0, 0.5]),
)
def test_a_decided_answer_never_changes(
    seen: list[tuple[str, float]], rest: list[tuple[str, float]], rule: Rule, floor: float
) -> None:
    policy = VotePolicy(rule=rule, min_share=floor)
    rows = seen + rest
    every = samples([text for text, _ in rows], [confidence for _, confidence in rows])
    before = vote(every[: len(seen)], policy)
    if decided(every[: len(seen)], len(every), policy):
        after = vote(every, policy)
        assert (after.answer, after.consensus) == (before.answer, before.consensus)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 8), st.integers(0, 3), st.integers(1, 4), st.sampled_from(list(Rule)), st.floats(0, 1))
def test_no_rival_can_overtake_a_decided_leader(
    lead: int, rival: int, missing: int, rule: Rule, confidence: float
) -> None:
    """The hardest completions: all the missing for the rival, or for one new answer, as sure as can be."""
    policy = VotePolicy(rule=rule)
    seen = samples(["1"] * lead + ["2"] * rival, [confidence] * lead + [0.9] * rival)
    if not decided(seen, len(seen) + missing, policy):
        return
    for text in ("2", "3", "1", ""):
        for sureness in (0.0, 1.0):
            for count in range(missing + 1):
                rest = [sample(len(seen) + place, text, confidence=sureness) for place in range(count)]
                rest += [sample(len(seen) + place, f"9{place}") for place in range(count, missing)]
                assert vote([*seen, *rest], policy).answer == "1" or vote(seen, policy).answer != "1"
