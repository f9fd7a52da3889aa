"""The vote: from samples to one answer and the reasons for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.events import Chain, Sample, Vote
from pipeline.fusion.ballots import Ballot, cast
from pipeline.fusion.collapse import effective_votes
from pipeline.fusion.grouping import families, wordings
from pipeline.fusion.policy import Measure, Rule, VotePolicy

SCORE_DIGITS = 12
"""Scores are compared to this many places, so that rounding of a last bit never breaks a tie."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the samples decided.

    Attributes:
        answer: the winner's most common wording; ``None`` when nobody voted.
        chosen_sample: index of the surest sample with that wording.
        confidence: the winner's score under ``scored`` whatever the rule, its share counting abstentions too;
            under ``estimated`` the share is that of effective votes, with one more vote for and one against
            (Laplace's rule of succession), so that few votes are no certainty. Calibrated if there is a map.
        votes: every group, best first.
        reasoning: every sample once, by index, with why it counted or not.
        abstained: samples that could have voted and held no answer.
        tie: the winner was level with another group by the rule, and the tie-break decided.
        consensus: the winner's share of votes reaches the policy's floor.
        why: one sentence for people.
    """

    answer: str | None
    chosen_sample: int | None
    confidence: float | None
    votes: tuple[Vote, ...]
    reasoning: tuple[Chain, ...]
    abstained: int
    tie: bool
    consensus: bool
    why: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A group with what the rule makes of it; ``weight`` is its votes, effective ones under ``estimated``."""

    members: tuple[Ballot, ...]
    score: float
    confidence: float
    weight: float

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


def vote(samples: Sequence[Sample], policy: VotePolicy) -> Verdict:
    """Group equal answers and let the policy's rule choose; the same samples in any order give the same verdict.

    A sample index counts once; reviews, failures and cancelled samples don't vote; a sample without an
    answer abstains. Ties: more votes, then higher mean confidence, then the lowest sample index.
    """
    ballots = cast(samples, policy.kind, policy.options.measure)
    ranked = standings(ballots, policy)
    abstained = sum(ballot.abstains for ballot in ballots)
    if not ranked:
        why = f"no answer: {abstained} abstained, {len(ballots) - abstained} did not vote"
        return Verdict(
            None,
            None,
            None,
            (),
            _explain(ballots, ranked, tie=False, policy=policy),
            abstained,
            False,
            False,
            why,
        )
    winner = ranked[0]
    total = sum(len(standing.members) for standing in ranked)
    wording = wordings(winner.members)[0][0]
    tie = len(ranked) > 1 and ranked[1].rank[0] == winner.rank[0]
    consensus = len(winner.members) >= policy.min_share * total
    confidence = _score(_support(ranked, abstained, policy), winner.confidence, policy)
    if (calibration := policy.options.calibration) is not None:
        confidence = calibration.apply(confidence)
    return Verdict(
        answer=wording,
        chosen_sample=_surest(winner.members, wording),
        confidence=round(confidence, SCORE_DIGITS),
        votes=tuple(_vote(standing) for standing in ranked),
        reasoning=_explain(ballots, ranked, tie=tie, policy=policy),
        abstained=abstained,
        tie=tie,
        consensus=consensus,
        why=_why(ranked, total, tie, consensus, policy),
    )


def standings(ballots: Sequence[Ballot], policy: VotePolicy) -> list[Standing]:
    """Every group, best first."""
    groups = [group for family in families(ballots) for group in family.groups]
    worth = [_worth(group, policy) for group in groups]
    total = math.fsum(worth)
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
                score = _score(votes / total, confidence, policy)
        position += len(group)
        found.append(Standing(group, score, confidence, votes))
    return sorted(found, key=lambda standing: standing.rank)


def _worth(group: Sequence[Ballot], policy: VotePolicy) -> float:
    return effective_votes(group) if policy.options.measure is Measure.ESTIMATED else len(group)


def _support(ranked: Sequence[Standing], abstained: int, policy: VotePolicy) -> float:
    total = math.fsum(standing.weight for standing in ranked) + abstained
    if policy.options.measure is Measure.ESTIMATED:
        return (ranked[0].weight + 1) / (total + 2)
    return ranked[0].weight / total


def _score(share: float, confidence: float, policy: VotePolicy) -> float:
    return policy.share_weight * share + (1 - policy.share_weight) * confidence


def _softmax(confidences: Sequence[float], temperature: float) -> list[float]:
    if not confidences:
        return []
    top = max(confidences)
    raw = [math.exp((confidence - top) / temperature) for confidence in confidences]
    total = math.fsum(raw)
    return [value / total for value in raw]


def _surest(members: Sequence[Ballot], wording: str) -> int:
    same = [member for member in members if member.answer == wording]
    return min(same, key=lambda member: (-member.confidence, member.sample.sample_index)).sample.sample_index


def _vote(standing: Standing) -> Vote:
    return Vote(
        answer=wordings(standing.members)[0][0],
        count=len(standing.members),
        confidence=round(standing.confidence, SCORE_DIGITS),
        score=round(standing.score, SCORE_DIGITS),
        samples=tuple(member.sample.sample_index for member in standing.members),
    )


def _explain(
    ballots: Sequence[Ballot], ranked: Sequence[Standing], *, tie: bool, policy: VotePolicy
) -> tuple[Chain, ...]:
    estimated = policy.options.measure is Measure.ESTIMATED
    notes: dict[int, tuple[float, str]] = {}
    for place, standing in enumerate(ranked):
        outcome = ("won a tie" if tie else "won") if place == 0 else "lost"
        note = f"{outcome}: group {place + 1} of {len(ranked)} with {len(standing.members)} votes"
        for member in standing.members:
            told = f"{note}; confidence {member.sureness}" if estimated else note
            notes[member.sample.sample_index] = (round(standing.score, SCORE_DIGITS), told)
    return tuple(_chain(ballot, notes) for ballot in ballots)


def _chain(ballot: Ballot, notes: dict[int, tuple[float, str]]) -> Chain:
    score, note = (0.0, ballot.note) if ballot.answer is None else notes[ballot.sample.sample_index]
    sample = ballot.sample
    return Chain(
        sample_index=sample.sample_index,
        role=sample.role,
        path=sample.path,
        text=sample.text,
        answer=ballot.answer,
        score=score,
        finish_reason=sample.finish_reason,
        note=note,
    )


def _why(ranked: Sequence[Standing], total: int, tie: bool, consensus: bool, policy: VotePolicy) -> str:
    winner = ranked[0]
    text = f"{len(winner.members)} of {total} votes, {policy.rule} score {winner.score:.3f}"
    if tie:
        text += "; tie broken by votes, then mean confidence, then lowest sample index"
    if not consensus:
        text += f"; under the floor of {policy.min_share:g} of the votes"
    return text
