"""Every sample as the result explains it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.events import Chain, Outcome, Role, Sureness
from pipeline.fusion.ballots import Ballot
from pipeline.fusion.collapse import worths
from pipeline.fusion.policy import Measure, VotePolicy
from pipeline.fusion.review import judgement
from pipeline.fusion.standing import SCORE_DIGITS, Standing


def explain(
    ballots: Sequence[Ballot], ranked: Sequence[Standing], *, tie: bool, policy: VotePolicy
) -> tuple[Chain, ...]:
    """One chain a ballot, in their order; ``ranked`` is best first, and ``tie`` says how the first one won."""
    found: dict[int, Chain] = {}
    for place, standing in enumerate(ranked):
        outcome = Outcome.LOST if place else Outcome.WON_TIE if tie else Outcome.WON
        told = {Outcome.WON: "won", Outcome.WON_TIE: "won a tie"}.get(outcome, "lost")
        note = f"{told}: group {place + 1} of {len(ranked)} with {len(standing.members)} votes"
        if standing.review is not None:
            note += f"; won {standing.review:.0%} of its comparisons"
        for member, worth in zip(standing.members, _worths(standing, policy), strict=True):
            estimated = policy.options.measure is Measure.ESTIMATED
            found[member.sample.sample_index] = _chain(
                member,
                note=f"{note}; confidence {member.sureness}" if estimated else note,
                outcome=outcome,
                score=round(standing.score, SCORE_DIGITS),
                group=place,
                worth=worth,
            )
    return tuple(
        _silent(ballot) if ballot.answer is None else found[ballot.sample.sample_index] for ballot in ballots
    )


def _worths(standing: Standing, policy: VotePolicy) -> list[float]:
    if policy.options.measure is Measure.ESTIMATED:
        return worths(standing.members)
    return [1.0] * len(standing.members)


def _silent(ballot: Ballot) -> Chain:
    if ballot.sample.role is Role.REVIEW:
        said = judgement(ballot.sample)
        note = ballot.note
        if said is not None:
            other = said.pair.b if said.better == said.pair.a else said.pair.a
            note = f"review: sample {said.better} is better than sample {other}"
        return _chain(ballot, note=note, outcome=Outcome.REVIEW)
    if ballot.abstains:
        return _chain(ballot, note=ballot.note, outcome=Outcome.ABSTAINED)
    failed = ballot.note.startswith("failed")
    return _chain(ballot, note=ballot.note, outcome=Outcome.FAILED if failed else Outcome.CANCELLED)


def _chain(
    ballot: Ballot,
    *,
    note: str,
    outcome: Outcome,
    score: float = 0.0,
    group: int | None = None,
    worth: float = 0.0,
) -> Chain:
    sample, sure = ballot.sample, ballot.sureness
    return Chain(
        sample_index=sample.sample_index,
        role=sample.role,
        path=sample.path,
        text=sample.text,
        answer=ballot.answer,
        score=score,
        finish_reason=sample.finish_reason,
        note=note,
        outcome=outcome,
        group=group,
        sureness=Sureness(
            value=round(sure.value, SCORE_DIGITS),
            tokens=round(sure.tokens, SCORE_DIGITS),
            steps_right=sure.right,
            steps_wrong=sure.wrong,
            contradictions=sure.contradictions,
            derivations=sure.ways,
            worth=round(worth, SCORE_DIGITS),
        )
        if group is not None
        else None,
    )
