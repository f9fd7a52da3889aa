from __future__ import annotations

import random

import pytest
from fusion_samples import sample, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Kind
from pipeline.fusion import VotePolicy, decided, vote
from pipeline.fusion.similarity import token_overlap

OPEN = VotePolicy(kind=Kind.OPEN)
ALIKE = [
    "The sky is blue because air scatters blue light more than red light.",
    "Air scatters blue light more than red, so the sky is blue.",
    "Cats are liquid and sleep all day.",
]

texts = st.text(st.sampled_from("ab 水火.!"), max_size=12)


@settings(max_examples=100)
@given(texts, texts)
def test_likeness_is_symmetric_and_bounded(left: str, right: str) -> None:
    assert 0 <= token_overlap(left, right) == token_overlap(right, left) <= 1
    assert token_overlap(left, left) == 1


@pytest.mark.parametrize(
    ("left", "right", "likeness"),
    [
        ("The cat sat", "the CAT sat!", 1.0),
        ("a b", "c d", 0.0),
        ("a b c d", "a b", 2 / 3),
        ("水火", "水土", 0.5),
    ],
)
def test_likeness(left: str, right: str, likeness: float) -> None:
    assert token_overlap(left, right) == pytest.approx(likeness)


def test_the_text_that_the_others_support_wins() -> None:
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        drawn = [sample(place, ALIKE[which]) for place, which in enumerate(order)]
        assert vote(drawn, OPEN).votes[-1].answer == ALIKE[2]
    assert vote(samples(ALIKE, [0.5, 0.5, 0.6]), OPEN).answer != ALIKE[2]


def test_of_two_texts_the_surer_one_wins() -> None:
    assert vote(samples(ALIKE[:2], [0.5, 0.6]), OPEN).answer == ALIKE[1]


def test_texts_that_agree_make_a_surer_answer() -> None:
    alike, apart = vote(samples(ALIKE[:2]), OPEN), vote(samples([ALIKE[0], ALIKE[2]]), OPEN)
    assert (alike.confidence or 0) > (apart.confidence or 0)


def test_open_questions_and_programs_wait_for_all_samples() -> None:
    for kind in (Kind.OPEN, Kind.CODE):
        drawn = samples(["same"] * 3, [0.99] * 3)
        assert not decided(drawn, 4, VotePolicy(kind=kind))
        assert decided(drawn, 3, VotePolicy(kind=kind))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ALIKE), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_order_changes_nothing(drawn: list[str], chance: random.Random) -> None:
    every = samples(drawn)
    shuffled = chance.sample(every, len(every))
    assert vote(shuffled, OPEN) == vote(every, OPEN)
