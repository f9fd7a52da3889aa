"""Votes of 40 samples replayed from answer distributions: what each rule of early stop draws, and what it loses."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from fusion_samples import samples

from pipeline.fusion import EarlyStop, Rule, VoteOptions, VotePolicy, decided, vote
from pipeline.fusion.stop_rules import stays_ahead

FULL = 40
DISTRIBUTIONS = {
    "easy": (0.85, 0.05, 0.05, 0.05),
    "middle": (0.6, 0.2, 0.1, 0.1),
    "hard": (0.4, 0.25, 0.15, 0.1, 0.1),
}
POLICIES = {rule: VotePolicy(rule=Rule.MAJORITY, options=VoteOptions(early_stop=rule)) for rule in EarlyStop}
BETA, ESC = POLICIES[EarlyStop.BETA].stop_posterior, POLICIES[EarlyStop.ESC].stop_window


def replayed(name: str, count: int) -> Iterator[list[str]]:
    chance = random.Random(f"votes/{name}")
    weights = DISTRIBUTIONS[name]
    for _ in range(count):
        yield [str(answer) for answer in chance.choices(range(len(weights)), weights, k=FULL)]


def winner(answers: Sequence[str]) -> str:
    counts = Counter(answers)
    return min(counts, key=lambda answer: (-counts[answer], answers.index(answer)))


def lossless(seen: Sequence[str]) -> bool:
    leader, second = top_two(seen)
    missing = FULL - len(seen)
    # Level at the end is enough for the leader only if it was named first, and then every rival has fewer now.
    return leader > second + missing or (leader == second + missing and winner(seen) == seen[0])


def beta(seen: Sequence[str]) -> bool:
    leader, second = top_two(seen)
    return lossless(seen) or ahead_by_hand(leader, second, FULL - len(seen)) >= BETA


def esc(seen: Sequence[str]) -> bool:
    whole = range(0, len(seen) - ESC + 1, ESC)
    return lossless(seen) or any(set(seen[at : at + ESC]) == {winner(seen)} for at in whole)


IDEALS: dict[EarlyStop, Callable[[Sequence[str]], bool]] = {
    EarlyStop.LOSSLESS: lossless,
    EarlyStop.BETA: beta,
    EarlyStop.ESC: esc,
}


def top_two(seen: Sequence[str]) -> tuple[int, int]:
    counts = [count for _, count in Counter(seen).most_common(2)]
    return counts[0], counts[1] if len(counts) > 1 else 0


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


def stop(answers: Sequence[str], rule: Callable[[Sequence[str]], bool]) -> int:
    return next(drawn for drawn in range(1, FULL + 1) if drawn == FULL or rule(answers[:drawn]))


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
    if rule is EarlyStop.BETA:
        # The exact one, which remembers what it was asked before.
        def ideal(seen: Sequence[str]) -> bool:
            return lossless(seen) or stays_ahead(*top_two(seen), FULL - len(seen)) >= BETA

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
