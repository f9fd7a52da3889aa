"""Early stop as the pipeline runs it: estimated confidence, repeats, questions asked back, review rounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest
from fusion_samples import sample
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import FinishReason, Kind, Mode, Sample
from pipeline.fusion import VotePolicy, decided, vote
from pipeline.settings import Settings
from pipeline.vote_options import vote_options

TEXTS = (
    "7",
    "7.0",
    "8",
    "7 cm",
    "3 + 4 = 7. The answer is 7.",
    "3 + 4 = 8. The answer is 8.",
    "The answer is 7. No, the answer is 8.",
    "",
)
SURENESS = (0.02, 0.5, 0.99)
OPTIONS = vote_options(Settings())
POLICIES = {mode: VotePolicy.for_mode(mode, Kind.ANSWER, OPTIONS) for mode in (Mode.STANDARD, Mode.DEEP)}


def drawn(rows: list[tuple[str, float]]) -> list[Sample]:
    """One token a text, so that the probability of a token is that of the whole text: repeats count for little."""
    return [
        replace(sample(place, text, confidence=sureness), completion_tokens=1)
        for place, (text, sureness) in enumerate(rows)
    ]


def outcome(samples: list[Sample], policy: VotePolicy) -> tuple[object, ...]:
    """What a requester sees, and whether a review round follows."""
    verdict = vote(samples, policy)
    votes = sum(group.count for group in verdict.votes)
    share = policy.review.agreement if policy.review else 0.0
    reviewed = bool(verdict.votes) and verdict.votes[0].count < share * votes
    return verdict.answer, verdict.clear, reviewed


ROW = st.tuples(st.sampled_from(TEXTS), st.sampled_from(SURENESS))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(TEXTS[:5]),
    st.lists(st.sampled_from(SURENESS), min_size=1, max_size=6),
    st.lists(ROW, max_size=2),
    st.integers(1, 2),
    st.sampled_from(list(POLICIES)),
)
def test_no_completion_changes_what_is_decided(
    leading: str, surenesses: list[float], others: list[tuple[str, float]], missing: int, mode: Mode
) -> None:
    """Every completion of one or two missing samples, failures included."""
    policy = POLICIES[mode]
    seen = drawn([(leading, sureness) for sureness in surenesses] + others)
    if not decided(seen, len(seen) + missing, policy):
        return
    before = outcome(seen, policy)
    choices = product(TEXTS, SURENESS) if missing == 1 else product(TEXTS[1:], SURENESS[::2])
    for rest in combinations_with_replacement(list(choices), missing):
        every = drawn([(s.text, 0.5) for s in seen] + list(rest))
        assert outcome([*seen, *every[len(seen) :]], policy) == before, rest
    failed = [
        replace(sample(len(seen) + place, "9"), finish_reason=FinishReason.ERROR) for place in range(missing)
    ]
    assert outcome([*seen, *failed], policy) == before


@pytest.mark.parametrize("mode", list(POLICIES))
def test_windows_do_close_early(mode: Mode) -> None:
    """What is never decided is lossless too, and worth nothing."""
    rows = [("3 + 4 = 7. The answer is 7.", 0.9)] * 7
    assert decided(drawn(rows), 9, POLICIES[mode])


def test_one_text_that_the_model_was_bound_to_repeat_decides_less_than_many_ways_to_one_answer() -> None:
    missing, policy = 3, POLICIES[Mode.STANDARD]
    collapsed = [("7", 0.99)] * 4 + [("3 + 5 = 8. The answer is 8.", 0.9)]
    reasoned = [("3 + 4 = 7. The answer is 7.", 0.9)] * 4 + [("8", 0.5)]
    assert not decided(drawn(collapsed), len(collapsed) + missing, policy)
    assert decided(drawn(reasoned), len(reasoned) + 1, policy)
