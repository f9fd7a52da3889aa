"""When the samples still missing can't change the answer any more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.events import Kind, Role, Sample
from pipeline.fusion.ballots import Ballot, cast
from pipeline.fusion.collapse import effective_votes
from pipeline.fusion.grouping import Family, families, wordings
from pipeline.fusion.policy import Measure, Rule, VotePolicy
from pipeline.fusion.standing import standings
from pipeline.fusion.stop_rules import enough

MARGIN = 1e-9
"""A lead under this is no lead: the vote compares scores to 12 places, and sums may differ in the last bits."""


@dataclass(frozen=True, slots=True)
class _Side:
    """Votes and what they carry: the sum of confidences, or of unnormalised softmax weights.

    ``effective`` is the votes that the score counts where repeats count less.
    """

    count: int
    mass: float
    effective: float = 0.0


def decided(samples: Sequence[Sample], expected: int, policy: VotePolicy) -> bool:
    """Whether the answer, wording included, is the same however the missing samples turn out.

    ``expected`` is the number of voting samples of the request. Every split of the missing samples between the
    leader (with confidence 0) and any rival or new answer (with confidence 1) is considered, so the rule is
    lossless; which sample is chosen to show, and the confidence, may still change. Levels count as not decided,
    because confidences break ties. Where the policy sets another rule of ``EarlyStop``, a vote is also decided
    when that rule has ``enough``, and then the answer could have changed.

    What else the missing samples could change is waited for: a leader that could be asked back about or sent into
    a review round is not decided, and all samples are in before texts on open questions are compared with each
    other, programs are tested, or a floor of confidence is looked at.
    """
    ballots = cast(samples, policy.kind, policy.options.measure)
    seen = sum(1 for ballot in ballots if ballot.sample.role is not Role.REVIEW)
    missing = max(0, expected - seen)
    if missing == 0:
        return True
    if policy.kind in (Kind.OPEN, Kind.CODE) or policy.min_confidence > 0:
        return False
    ranked = standings(ballots, policy)
    if not ranked:
        return False
    if enough(ranked, missing, policy):
        return True
    votes = sum(len(standing.members) for standing in ranked)
    split = _split(ranked[0].members, families(ballots), policy)
    if split is None or not _wording_is_safe(ranked[0].members, split.core, missing):
        return False
    if len(split.core) < policy.settled_share * (votes + missing):
        return False
    worth = math.fsum(standing.weight for standing in ranked)
    return all(
        _stays_ahead(split.leader, rival, votes, worth, missing, policy)
        for rival in (*split.rivals, _Side(0, 0.0))
    )


@dataclass(frozen=True, slots=True)
class _Split:
    core: tuple[Ballot, ...]
    leader: _Side
    rivals: tuple[_Side, ...]


def _split(winner: Sequence[Ballot], known: Sequence[Family], policy: VotePolicy) -> _Split | None:
    """The leader at its smallest, and every rival whole and in parts.

    A second unit can still split a group of bare and united values, so of a leader like that only the
    larger part is sure, and the other part is a rival.
    """
    forms = {ballot.form for ballot in winner}
    core: tuple[Ballot, ...] = ()
    rivals: list[_Side] = []
    for family in known:
        for group in family.groups:
            held = {ballot.form for ballot in group}
            parts = [part for _, part in family.units if len(held) > 1]
            if held != forms:
                rivals.extend(_side(part, policy) for part in (group, *parts))
                continue
            if parts and policy.rule is not Rule.MAJORITY:
                # Joined, split and joined again weigh confidences differently: wait for more samples.
                return None
            core, *others = sorted(parts, key=len, reverse=True) or [group]
            rivals.extend(_side(part, policy) for part in others)
    return _Split(core, _side(core, policy), tuple(rivals))


def _side(group: Sequence[Ballot], policy: VotePolicy) -> _Side:
    if policy.rule is Rule.WEIGHTED:
        return _Side(len(group), math.fsum(math.exp(b.confidence / policy.temperature) for b in group))
    mass = math.fsum(b.confidence for b in group)
    if policy.options.measure is Measure.ESTIMATED:
        return _Side(len(group), mass, effective_votes(group))
    return _Side(len(group), mass)


def _wording_is_safe(winner: Sequence[Ballot], core: Sequence[Ballot], missing: int) -> bool:
    ordered = wordings(winner)
    text, _ = ordered[0]
    sure = sum(ballot.answer == text for ballot in core)
    runner_up = max((count for other, count in ordered if other != text), default=0)
    return sure > runner_up + missing


def _stays_ahead(
    leader: _Side, rival: _Side, votes: int, worth: float, missing: int, policy: VotePolicy
) -> bool:
    if policy.rule is Rule.MAJORITY:
        return leader.count > rival.count + missing
    if policy.rule is Rule.WEIGHTED:
        return leader.mass > rival.mass + missing * math.exp(1 / policy.temperature) + MARGIN
    if policy.options.measure is Measure.ESTIMATED:
        leads = _effective_leads(leader, rival, worth, missing, policy.share_weight)
        return all(lead > MARGIN for lead in leads)
    return all(lead > MARGIN for lead in _leads(leader, rival, votes, missing, policy.share_weight))


def _leads(leader: _Side, rival: _Side, votes: int, missing: int, weight: float) -> Iterator[float]:
    """The leader's lead in score, over how many of the missing go to the leader and how many to the rival.

    A vote for a third answer or an abstention is never worse for the leader than one more sure vote for the
    rival: with d the difference of votes, (d - 1)/(N + 1) is below both d/(N + 1) and d/N for every d > -N.
    An unsure vote for the leader can be worse, where it has a small share and lives on its confidence.
    """
    total = votes + missing
    for to_leader in range(missing + 1):
        to_rival = missing - to_leader
        ours, theirs = leader.count + to_leader, rival.count + to_rival
        if theirs:
            sureness = leader.mass / ours - (rival.mass + to_rival) / theirs
            yield weight * (ours - theirs) / total + (1 - weight) * sureness


def _effective_leads(
    leader: _Side, rival: _Side, worth: float, missing: int, weight: float
) -> Iterator[float]:
    """The same where repeats count less: a missing vote adds between 0 and 1 to its side and to all sides together."""
    for to_leader in range(missing + 1):
        to_rival = missing - to_leader
        ours, theirs = leader.count + to_leader, rival.count + to_rival
        if theirs:
            ahead = leader.effective - rival.effective - to_rival
            share = ahead / (worth + missing if ahead > 0 else worth)
            yield weight * share + (1 - weight) * (leader.mass / ours - (rival.mass + to_rival) / theirs)
