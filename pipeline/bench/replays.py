"""Votes of 40 samples replayed from answer distributions, and the sequential ideal of each rule of early stop.

An ideal is the rule itself on a list of answers that come one by one: no grouping, no wording, no confidence. It
draws the fewest samples with which the rule is satisfied.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pipeline.fusion import EarlyStop, Rule, VoteOptions, VotePolicy
from pipeline.fusion.stop_rules import stays_ahead

FULL: Final = 40
DISTRIBUTIONS: Final[Mapping[str, tuple[float, ...]]] = {
    "easy": (0.85, 0.05, 0.05, 0.05),
    "middle": (0.6, 0.2, 0.1, 0.1),
    "hard": (0.4, 0.25, 0.15, 0.1, 0.1),
}
"""The probability of each answer."""
POLICIES: Final = {
    rule: VotePolicy(rule=Rule.MAJORITY, options=VoteOptions(early_stop=rule)) for rule in EarlyStop
}

StopRule = Callable[[Sequence[str]], bool]


def replayed(name: str, count: int) -> Iterator[list[str]]:
    """``count`` full votes of a distribution, the same ones each time."""
    chance = random.Random(f"votes/{name}")
    weights = DISTRIBUTIONS[name]
    for _ in range(count):
        yield [str(answer) for answer in chance.choices(range(len(weights)), weights, k=FULL)]


def winner(answers: Sequence[str]) -> str:
    """Most votes; of equals the one that was named first."""
    counts = Counter(answers)
    return min(counts, key=lambda answer: (-counts[answer], answers.index(answer)))


def top_two(seen: Sequence[str]) -> tuple[int, int]:
    """Votes of the leader and of the second."""
    counts = [count for _, count in Counter(seen).most_common(2)]
    return counts[0], counts[1] if len(counts) > 1 else 0


def lossless(seen: Sequence[str]) -> bool:
    leader, second = top_two(seen)
    missing = FULL - len(seen)
    # Level at the end is enough for the leader only if it was named first, and then every rival has fewer now.
    return leader > second + missing or (leader == second + missing and winner(seen) == seen[0])


def beta(seen: Sequence[str]) -> bool:
    leader, second = top_two(seen)
    sure = POLICIES[EarlyStop.BETA].stop_posterior
    return lossless(seen) or stays_ahead(leader, second, FULL - len(seen)) >= sure


def esc(seen: Sequence[str]) -> bool:
    size = POLICIES[EarlyStop.ESC].stop_window
    windows = (set(seen[at : at + size]) for at in range(0, len(seen) - size + 1, size))
    return lossless(seen) or any(window == {winner(seen)} for window in windows)


IDEALS: Final[Mapping[EarlyStop, StopRule]] = {
    EarlyStop.LOSSLESS: lossless,
    EarlyStop.BETA: beta,
    EarlyStop.ESC: esc,
}


def stop(answers: Sequence[str], rule: StopRule) -> int:
    """After how many of the answers a rule ends the vote."""
    return next(drawn for drawn in range(1, FULL + 1) if drawn == FULL or rule(answers[:drawn]))
