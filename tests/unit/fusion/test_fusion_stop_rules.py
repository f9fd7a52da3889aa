"""Votes of 40 samples replayed from answer distributions: what each rule of early stop draws, and what it loses."""

from __future__ import annotations

import math

import pytest
from fusion_samples import samples

from pipeline.bench.replays import DISTRIBUTIONS, FULL, IDEALS, POLICIES, replayed, stop, winner
from pipeline.fusion import EarlyStop, decided, vote
from pipeline.fusion.stop_rules import stays_ahead


def ahead_by_hand(leader: int, second: int, missing: int) -> float:
    """By the beta function, where the code counts the ways of an urn."""

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    a, b = leader + 1, second + 1
    return math.fsum(
        math.comb(missing, k) * math.exp(log_beta(a + k, b + missing - k) - log_beta(a, b))
        for k in range(missing + 1)
        if leader + k > second + missing - k
    )


@pytest.mark.parametrize("rule", list(EarlyStop))
def test_a_rule_draws_hardly_more_than_its_ideal(rule: EarlyStop) -> None:
    policy, executed, ideal, agreed = POLICIES[rule], 0, 0, 0
    votes = [answers for name in DISTRIBUTIONS for answers in replayed(name, 8)]
    for answers in votes:
        every = samples(answers)
        drawn = stop(answers, lambda seen, every=every: decided(every[: len(seen)], FULL, policy))
        executed += drawn
        ideal += stop(answers, IDEALS[rule])
        agreed += vote(every[:drawn], policy).answer == winner(answers)
    assert ideal <= executed <= 1.15 * ideal
    assert agreed == len(votes)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("rule", list(EarlyStop))
def test_a_stopped_vote_agrees_with_the_full_one(name: str, rule: EarlyStop) -> None:
    count = 1_500
    ideal = IDEALS[rule]
    agreed = sum(
        winner(answers) == winner(answers[: stop(answers, ideal)]) for answers in replayed(name, count)
    )
    assert agreed >= (1.0 if rule is EarlyStop.LOSSLESS else 0.998) * count


@pytest.mark.parametrize(
    ("leader", "second", "missing"), [(1, 0, 1), (3, 0, 37), (5, 1, 10), (10, 9, 21), (2, 2, 5), (4, 5, 3)]
)
def test_the_posterior_by_another_way(leader: int, second: int, missing: int) -> None:
    assert float(stays_ahead(leader, second, missing)) == pytest.approx(
        ahead_by_hand(leader, second, missing)
    )


def test_posteriors_by_hand() -> None:
    # Of one missing vote after 1 : 0 the leader stays ahead if it gets it: (1 + 1) / (1 + 2).
    assert stays_ahead(1, 0, 1).as_integer_ratio() == (2, 3)
    assert stays_ahead(2, 1, 0) == 1
    assert stays_ahead(1, 1, 0) == 0


def test_a_window_counts_by_index_and_only_whole() -> None:
    policy = POLICIES[EarlyStop.ESC]
    drawn = samples(["1"] * 4 + ["2"] + ["1"] * 5)
    assert decided(drawn, FULL, policy)
    assert decided(list(reversed(drawn)), FULL, policy)
    assert not decided(drawn[:9], FULL, policy)
    assert not decided(samples(["2"] + ["1"] * 5), FULL, policy)
