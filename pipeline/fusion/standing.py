"""Where each group of equal answers stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.events import Kind
from pipeline.fusion.ballots import Ballot
from pipeline.fusion.collapse import effective_votes
from pipeline.fusion.grouping import families, wordings
from pipeline.fusion.policy import Measure, Rule, VotePolicy

SCORE_DIGITS = 12
"""Scores are compared to this many places, so that rounding of a last bit never breaks a tie."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A group with what the rule makes of it.

    Attributes:
        weight: its votes: effective ones under ``estimated``; for open questions what all texts together say for
            its own, each by how alike they are.
        review: the share of comparisons that it won; ``None`` when it was not compared.
    """

    members: tuple[Ballot, ...]
    score: float
    confidence: float
    weight: float
    review: float | None = None

    @property
    def rank(self) -> tuple[float, int, float, int]:
        """Ascending, best first: score, then votes, then mean confidence, then lowest sample index."""
        first = min(member.sample.sample_index for member in self.members)
        return (
            -round(self.score, SCORE_DIGITS),
            -len(self.members),
            -round(self.confidence, SCORE_DIGITS),
            first,
        )


def standings(ballots: Sequence[Ballot], policy: VotePolicy) -> list[Standing]:
    """Every group, best first."""
    groups = [group for family in families(ballots) for group in family.groups]
    worth = _worths(groups, policy)
    total = voting_weight(groups, worth, policy)
    weights = _softmax([member.confidence for group in groups for member in group], policy.temperature)
    found: list[Standing] = []
    position = 0
    for group, votes in zip(groups, worth, strict=True):
        confidence = math.fsum(member.confidence for member in group) / len(group)
        match policy.rule:
            case Rule.MAJORITY:
                score = len(group) / sum(map(len, groups))
            case Rule.WEIGHTED:
                score = math.fsum(weights[position : position + len(group)])
            case Rule.SCORED:
                score = scored(votes / total, confidence, policy)
        position += len(group)
        found.append(Standing(group, score, confidence, votes))
    return sorted(found, key=lambda standing: standing.rank)


def scored(share: float, confidence: float, policy: VotePolicy) -> float:
    """What ``scored`` makes of a share of the votes and a confidence."""
    return policy.share_weight * share + (1 - policy.share_weight) * confidence


def voting_weight(groups: Sequence[Sequence[Ballot]], worth: Sequence[float], policy: VotePolicy) -> float:
    """All that could speak for one group: a text on an open question can have every other one on its side."""
    if policy.kind is Kind.OPEN:
        return sum(map(len, groups))
    return math.fsum(worth)


def _worths(groups: Sequence[Sequence[Ballot]], policy: VotePolicy) -> list[float]:
    if policy.kind is Kind.OPEN:
        return _expected_agreement(groups, policy)
    estimated = policy.options.measure is Measure.ESTIMATED
    return [effective_votes(group) if estimated else len(group) for group in groups]


def _expected_agreement(groups: Sequence[Sequence[Ballot]], policy: VotePolicy) -> list[float]:
    """The sum of each text's likeness to all, itself included.

    Its mean is the expected utility of minimum Bayes risk decoding with the samples as the hypotheses and as the
    evidence (Kumar and Byrne, 2004; Eikema and Aziz, 2020, arXiv 2005.10283). Were likeness 0 or 1, it would be
    the share of votes.
    """
    texts = [wordings(group)[0][0] for group in groups]
    alike = policy.options.similarity
    return [
        math.fsum(
            len(other) * (1.0 if text == theirs else alike(*sorted((text, theirs))))
            for other, theirs in zip(groups, texts, strict=True)
        )
        for text in texts
    ]


def _softmax(confidences: Sequence[float], temperature: float) -> list[float]:
    if not confidences:
        return []
    top = max(confidences)
    raw = [math.exp((confidence - top) / temperature) for confidence in confidences]
    total = math.fsum(raw)
    return [value / total for value in raw]
