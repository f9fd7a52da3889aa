"""Abacus' sums and chains: what is true is true, and what is wrong is wrong by design."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pipeline.abacus.problems import NOISE, OFFSETS, draw_chain, draw_problem, steps
from pipeline.fusion import extract_answer
from pipeline.fusion.steps import computation_steps

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_a_problem_has_its_true_answer_and_no_value_out_of_range(seed: int) -> None:
    problem = draw_problem(Random(seed))
    assert re.fullmatch(r"\d+([-+*]\d+)+", problem.expression)
    assert problem.answer == eval(problem.expression)
    assert all(0 <= step.value < 200 for step in steps(problem.expression))
    assert problem.question.replace(" ", "") == f"Whatis{problem.expression}?"


@given(SEEDS)
def test_a_chain_without_noise_is_right_in_every_step(seed: int) -> None:
    random = Random(seed)
    problem = draw_problem(random)
    chain = draw_chain(problem, random, noise=0.0)
    assert extract_answer(chain) == str(problem.answer)
    assert all(step.holds for step in computation_steps(chain))


def test_so_many_steps_are_wrong_and_by_no_other_offset() -> None:
    random = Random(1)
    count = wrong = 0
    for _ in range(2_000):
        for line in draw_chain(draw_problem(random), random, NOISE).splitlines()[:-1]:
            left, _, said = line.partition("=")
            offset = int(said) - eval(left)
            count += 1
            wrong += offset != 0
            assert offset in (0, *OFFSETS)
    assert abs(wrong / count - NOISE) < 0.02


def test_the_same_seed_draws_the_same() -> None:
    assert draw_problem(Random(3)) == draw_problem(Random(3))
