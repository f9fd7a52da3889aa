from __future__ import annotations

import pytest
from fusion_samples import samples

from pipeline.events import Kind, Outcome
from pipeline.fusion import Calibration, CheckedProgram, VoteOptions, VotePolicy, vote
from pipeline.fusion.code_choice import ProgramChecks, choose_program

POLICY = VotePolicy(kind=Kind.CODE)
CODES = ["def f(x):\n    return x * x", "def f(x):\n    return x + x", "def f(y):\n    return y * y"]
VERDICT = vote(samples([f"```python\n{code}\n```" for code in CODES]), POLICY)


def checks(*outcomes: tuple[bool, ...], given: bool = True) -> ProgramChecks:
    return ProgramChecks(
        tuple(CheckedProgram(i, CODES[i], held) for i, held in enumerate(outcomes)), given=given
    )


def test_most_tests_passed_wins_against_most_votes() -> None:
    assert VERDICT.chosen_sample in (0, 2)
    chosen = choose_program(VERDICT, checks((True, False), (True, True), (True, False)), POLICY)
    assert (chosen.answer, chosen.chosen_sample) == (CODES[1], 1)
    assert [(v.samples, v.count) for v in chosen.votes] == [((1,), 1), ((0, 2), 2)]
    assert [chain.outcome for chain in chosen.reasoning] == [Outcome.LOST, Outcome.WON, Outcome.LOST]
    assert [chain.group for chain in chosen.reasoning] == [1, 0, 1]
    assert chosen.votes[0].score == pytest.approx(0.7 + 0.3 * 0.5) == chosen.confidence
    assert chosen.why == "passes 2 of 2 tests, as 1 of 3 programs do"


def test_of_equal_passes_the_larger_group_then_the_shortest() -> None:
    chosen = choose_program(VERDICT, checks((True, False), (False, True), (True, False)), POLICY)
    assert chosen.chosen_sample == 0


def test_without_given_tests_agreement_decides() -> None:
    chosen = choose_program(VERDICT, checks((True,), (False,), (True,), given=False), POLICY)
    assert chosen.chosen_sample == 0 and "that the samples wrote" in chosen.why


def test_a_vote_whose_programs_were_not_run_says_so() -> None:
    chosen = choose_program(VERDICT, ProgramChecks(note="no program was run"), POLICY)
    assert (chosen.answer, chosen.votes) == (VERDICT.answer, VERDICT.votes)
    assert chosen.why.endswith("; no program was run")
    assert choose_program(VERDICT, ProgramChecks(), POLICY) == VERDICT


def test_nothing_passed_is_an_unsure_answer() -> None:
    chosen = choose_program(VERDICT, checks((), (), ()), POLICY)
    assert chosen.answer == CODES[0] and (chosen.confidence or 1) < 0.3


def test_confidence_is_calibrated() -> None:
    level = VotePolicy(kind=Kind.CODE, options=VoteOptions(calibration=Calibration(((0.5, 0.25),))))
    assert choose_program(VERDICT, checks((True,), (False,), (True,)), level).confidence == 0.25
