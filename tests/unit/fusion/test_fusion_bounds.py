"""Answers made to be expensive: read within bounds of work, in this process, and as themselves."""

from __future__ import annotations

import multiprocessing
import resource
from multiprocessing.connection import Connection

import pytest

from pipeline.bench.pathological import PATHOLOGICAL
from pipeline.fusion import canonical, equivalent, estimate_confidence, extract_answer
from pipeline.fusion.algebra import NotAlgebraError, parse
from pipeline.fusion.evaluate import OverBudgetError, UnboundedError, charge, constant, metered

CPU_SECONDS = 240
"""Of the child that reads them all, on a machine that is busy; alone it takes some seconds. A hang takes for ever."""
MEMORY = 512 * 1024


def read_all(answers: list[str], told: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for answer in answers:
        canonical(answer)
        estimate_confidence(answer, extract_answer(answer), None)
    told.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def test_they_end_in_bounded_memory() -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=read_all, args=(list(PATHOLOGICAL.values()), there))
    child.start()
    there.close()
    try:
        grown = here.recv()
    except EOFError:
        pytest.fail("the child was ended: an answer took it beyond its bounds, or raised")
    finally:
        child.join()
    assert grown < MEMORY
    assert child.exitcode == 0


@pytest.mark.parametrize("name", [name for name in PATHOLOGICAL if name not in ("spaces", "steps")])
def test_each_equals_itself_and_not_nine(name: str) -> None:
    answer = PATHOLOGICAL[name]
    assert equivalent(answer, answer)
    assert not equivalent(answer, "9")


def test_zeros_still_do_not_count() -> None:
    assert equivalent("00012.500", "12.5")
    assert equivalent("0" * 5_000 + "7", "7.0")
    assert equivalent("-0.0", "0")


def test_a_budget_covers_all_evaluations_inside_it() -> None:
    tree = parse("7^9999/11^9999")
    constant(tree)
    with pytest.raises(OverBudgetError), metered(200_000):
        for _ in range(1_000):
            constant(tree)
    charge(10**12)  # outside of it nothing is counted


@pytest.mark.parametrize("text", ["9^9^9^9", "3301!", "1e999^99", r"\exp(10^{9})"])
def test_what_is_too_large_raises_before_it_is_computed(text: str) -> None:
    with pytest.raises((UnboundedError, NotAlgebraError)):
        constant(parse(text))


@pytest.mark.parametrize(
    "text", ["*".join("1" * 400), "1" + "!" * 300, r"\sin" * 100 + "x", "(" * 45 + "1" + ")" * 45]
)
def test_trees_are_no_higher_than_recursion_can_walk(text: str) -> None:
    with pytest.raises(NotAlgebraError, match="too deep"):
        parse(text)
