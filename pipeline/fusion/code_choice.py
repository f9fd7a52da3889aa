"""A vote on programs, decided by what they do instead of by how they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.events import Chain, Outcome, Vote
from pipeline.fusion.agreement import CheckedProgram, ProgramStanding, rank_by_agreement, rank_by_tests
from pipeline.fusion.policy import VotePolicy
from pipeline.fusion.standing import SCORE_DIGITS, scored
from pipeline.fusion.vote import Verdict


@dataclass(frozen=True, slots=True)
class ProgramChecks:
    """What running the samples' programs has shown.

    Attributes:
        programs: that were run; empty when none was.
        given: the tests are the request's own, not the samples'.
        note: why nothing was run, for people; empty when something was.
    """

    programs: tuple[CheckedProgram, ...] = ()
    given: bool = False
    note: str = ""


def choose_program(verdict: Verdict, checks: ProgramChecks, policy: VotePolicy) -> Verdict:
    """The verdict with groups of equal behaviour: most tests passed first, then the larger group, then the shortest.

    Without the request's tests a group is ranked by its size times the samples' own tests that it passes (CodeT).
    A group's score is the policy's, with the share of tests passed (of the best rank, without given tests) in the
    place of the share of votes. Where nothing was run the vote stands, and ``why`` says so.
    """
    if not checks.programs:
        return replace(verdict, why=f"{verdict.why}; {checks.note}") if checks.note else verdict
    ranked = (rank_by_tests if checks.given else rank_by_agreement)(checks.programs)
    total = max(len(program.outcomes) for program in checks.programs)
    best = max((standing.score for standing in ranked), default=0)
    codes = {program.index: program.code for program in checks.programs}
    sure = {
        chain.sample_index: chain.sureness.value for chain in verdict.reasoning if chain.sureness is not None
    }
    groups = _groups(ranked)
    votes: list[Vote] = []
    for lead in groups:
        members = [index for index in lead.group if index in sure]
        confidence = math.fsum(sure[index] for index in members) / len(members) if members else 0.0
        share = lead.passed / total if checks.given and total else lead.score / best if best else 0.0
        votes.append(
            Vote(
                answer=codes[lead.index],
                count=len(lead.group),
                confidence=round(confidence, SCORE_DIGITS),
                score=round(scored(share, confidence, policy), SCORE_DIGITS),
                samples=lead.group,
            )
        )
    winner = groups[0]
    raw = votes[0].score
    calibration = policy.options.calibration
    return replace(
        verdict,
        answer=codes[winner.index],
        chosen_sample=winner.index,
        confidence=round(calibration.apply(raw), SCORE_DIGITS) if calibration else raw,
        votes=tuple(votes),
        reasoning=tuple(_told(chain, groups, votes, total) for chain in verdict.reasoning),
        tie=False,
        why=_why(winner, len(codes), total, given=checks.given),
    )


def _groups(ranked: Sequence[ProgramStanding]) -> list[ProgramStanding]:
    """The best program of each group, in order of rank."""
    seen: set[int] = set()
    leads: list[ProgramStanding] = []
    for standing in ranked:
        if standing.index not in seen:
            seen.update(standing.group)
            leads.append(standing)
    return leads


def _told(chain: Chain, groups: Sequence[ProgramStanding], votes: Sequence[Vote], total: int) -> Chain:
    place = next((place for place, lead in enumerate(groups) if chain.sample_index in lead.group), None)
    if place is None:
        return chain
    passed = f"passed {groups[place].passed} of {total} tests, as did {len(groups[place].group) - 1} others"
    outcome = Outcome.LOST if place else Outcome.WON
    return replace(
        chain,
        score=votes[place].score,
        group=place,
        outcome=outcome,
        note=f"{outcome.value}: {passed}",
    )


def _why(winner: ProgramStanding, programs: int, total: int, *, given: bool) -> str:
    whose = "" if given else " that the samples wrote"
    return f"passes {winner.passed} of {total} tests{whose}, as {len(winner.group)} of {programs} programs do"
