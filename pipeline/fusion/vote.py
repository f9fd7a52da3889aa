"""The vote: from samples to one answer and the reasons for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.events import Chain, Sample, Vote
from pipeline.fusion.ballots import Ballot, cast
from pipeline.fusion.chains import explain
from pipeline.fusion.grouping import wordings
from pipeline.fusion.policy import Measure, VotePolicy
from pipeline.fusion.rerank import UNDECIDED, reranked
from pipeline.fusion.standing import SCORE_DIGITS, Standing, scored, standings, voting_weight


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the samples decided.

    Attributes:
        answer: the winner's most common wording; ``None`` when nobody voted.
        chosen_sample: index of the surest sample with that wording.
        confidence: the winner's score under ``scored`` whatever the rule, its share counting abstentions too;
            under ``estimated`` the share is that of effective votes, with one more vote for and one against
            (Laplace's rule of succession), so that few votes are no certainty. Weighed with the share of comparisons
            won, if it was reviewed. Calibrated if there is a map.
        votes: every group, best first.
        reasoning: every sample once, by index, with why it counted or not.
        abstained: samples that could have voted and held no answer.
        tie: the winner was level with another group by the rule, and the tie-break decided.
        consensus: the winner's share of votes reaches the policy's floor.
        clear: it is an answer: there is consensus, or reviews prefer it in both orders, and it is sure enough.
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
    clear: bool
    why: str


def vote(samples: Sequence[Sample], policy: VotePolicy) -> Verdict:
    """Group equal answers and let the policy's rule choose; the same samples in any order give the same verdict.

    A sample index counts once; reviews, failures and cancelled samples don't vote; a sample without an
    answer abstains. Ties: more votes, then higher mean confidence, then the lowest sample index.
    Where the policy reviews, samples of role review change the scores by what they prefer.
    """
    ballots = cast(samples, policy.kind, policy.options.measure)
    ranked = standings(ballots, policy)
    if policy.review is not None:
        ranked = reranked(ranked, ballots, policy.review.weight)
    abstained = sum(ballot.abstains for ballot in ballots)
    if not ranked:
        why = f"no answer: {abstained} abstained, {len(ballots) - abstained} did not vote"
        return Verdict(
            None,
            None,
            None,
            (),
            explain(ballots, ranked, tie=False, policy=policy),
            abstained,
            False,
            False,
            False,
            why,
        )
    winner = ranked[0]
    total = sum(len(standing.members) for standing in ranked)
    wording = wordings(winner.members)[0][0]
    tie = len(ranked) > 1 and ranked[1].rank[0] == winner.rank[0]
    consensus = len(winner.members) >= policy.min_share * total
    confidence = _confidence(ranked, abstained, policy)
    if (calibration := policy.options.calibration) is not None:
        confidence = calibration.apply(confidence)
    return Verdict(
        answer=wording,
        chosen_sample=_surest(winner.members, wording),
        confidence=round(confidence, SCORE_DIGITS),
        votes=tuple(_vote(standing) for standing in ranked),
        reasoning=explain(ballots, ranked, tie=tie, policy=policy),
        abstained=abstained,
        tie=tie,
        consensus=consensus,
        clear=(consensus or (winner.review or 0.0) > UNDECIDED) and confidence >= policy.min_confidence,
        why=_why(ranked, total, tie, consensus, policy),
    )


def _confidence(ranked: Sequence[Standing], abstained: int, policy: VotePolicy) -> float:
    winner = ranked[0]
    groups, weights = [standing.members for standing in ranked], [standing.weight for standing in ranked]
    total = voting_weight(groups, weights, policy) + abstained
    estimated = policy.options.measure is Measure.ESTIMATED
    support = (winner.weight + 1) / (total + 2) if estimated else winner.weight / total
    confidence = scored(support, winner.confidence, policy)
    if policy.review is None or winner.review is None:
        return confidence
    return (1 - policy.review.weight) * confidence + policy.review.weight * winner.review


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
        review=None if standing.review is None else round(standing.review, SCORE_DIGITS),
    )


def _why(ranked: Sequence[Standing], total: int, tie: bool, consensus: bool, policy: VotePolicy) -> str:
    winner = ranked[0]
    text = f"{len(winner.members)} of {total} votes, score {winner.score:.3f} by rule {policy.rule}"
    if winner.review is not None:
        text += f"; won {winner.review:.0%} of its comparisons"
    if tie:
        text += "; tie broken by votes, then mean confidence, then lowest sample index"
    if not consensus:
        text += f"; under the floor of {policy.min_share:g} of the votes"
    return text
