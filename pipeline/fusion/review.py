"""The review round: samples that judge two others against each other, each pair in both orders.

A judge prefers what it reads first, or last (position bias: Zheng et al., 2023, arXiv 2306.05685, section 3.3),
so a comparison counts only when both orders came, and each order gives half of it. A review says itself whom it
compared, in its path, so what it means never depends on what the aggregator remembers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeline.events import Chain, FinishReason, Role, Sample, Vote
from pipeline.fusion.canonical import canonical
from pipeline.fusion.extract import extract_answer

_PATH = re.compile(r"review:(\d{1,9}):(\d{1,9})")
_A, _B = "choice:A", "choice:B"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two samples as a judge sees them; ``a`` is shown first."""

    a: int
    b: int

    @property
    def path(self) -> str:
        """The name of the prompt path of a sample that judges this pair."""
        return f"review:{self.a}:{self.b}"

    @classmethod
    def of(cls, path: str) -> Pair | None:
        """The pair that a path names, if it names one."""
        found = _PATH.fullmatch(path)
        return cls(int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one review says: which of two samples is better."""

    pair: Pair
    better: int


def pairs(votes: Sequence[Vote], chains: Sequence[Chain], candidates: int) -> tuple[Pair, ...]:
    """Who is compared: the best groups, each by the sample that would be shown for it, in both orders."""
    best = [representative(vote, chains) for vote in votes[:candidates]]
    return tuple(pair for a, b in combinations(best, 2) for pair in (Pair(a, b), Pair(b, a)))


def representative(vote: Vote, chains: Sequence[Chain]) -> int:
    """The surest sample with the group's own wording."""
    members = [chain for chain in chains if chain.sample_index in vote.samples]
    same = [chain for chain in members if chain.answer == vote.answer]
    return min(same, key=lambda c: (-(c.sureness.value if c.sureness else 0.0), c.sample_index)).sample_index


def judgement(sample: Sample) -> Judgement | None:
    """What a sample of role review says; ``None`` when it failed or names neither A nor B."""
    pair = Pair.of(sample.path)
    spoken = sample.error is None and sample.finish_reason not in (
        FinishReason.ERROR,
        FinishReason.CANCELLED,
    )
    if sample.role is not Role.REVIEW or pair is None or not spoken:
        return None
    answer = extract_answer(sample.text, sample.finish_reason)
    better = {_A: pair.a, _B: pair.b}.get(canonical(answer).key) if answer else None
    return None if better is None else Judgement(pair, better)


def win_shares(judgements: Iterable[Judgement], group_of: dict[int, int]) -> dict[int, float]:
    """For each group that was compared, the share of its comparisons that it won; order plays no part.

    Args:
        group_of: sample index to group; comparisons inside one group say nothing.
    """
    said: dict[Pair, list[int]] = defaultdict(list)
    for each in judgements:
        said[each.pair].append(each.better)
    won: dict[int, float] = defaultdict(float)
    held: dict[int, float] = defaultdict(float)
    for pair, better in said.items():
        other = Pair(pair.b, pair.a)
        ours, theirs = group_of.get(pair.a), group_of.get(pair.b)
        if other not in said or ours is None or theirs is None or ours == theirs:
            continue
        for group in (ours, theirs):
            held[group] += 1
        for index in better:
            won[group_of[index]] += 1 / len(better)
    return {group: won[group] / count for group, count in held.items()}
