"""Which program is best, from what each passed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.fusion import CheckedProgram, extract_program, own_tests, rank_by_agreement, rank_by_tests

TOTAL = 4
ROWS = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=3), st.tuples(*[st.booleans()] * TOTAL)), max_size=8
)


def programs(rows: list[tuple[str, tuple[bool, ...]]]) -> list[CheckedProgram]:
    return [CheckedProgram(index, code, outcomes) for index, (code, outcomes) in enumerate(rows)]


@given(ROWS, st.randoms())
def test_the_order_of_arrival_changes_nothing(
    rows: list[tuple[str, tuple[bool, ...]]], rng: random.Random
) -> None:
    inorder = programs(rows)
    shuffled = rng.sample(inorder, len(inorder))
    assert rank_by_tests(inorder) == rank_by_tests(shuffled)
    assert rank_by_agreement(inorder) == rank_by_agreement(shuffled)


@given(ROWS)
def test_the_best_by_given_tests_passes_most(rows: list[tuple[str, tuple[bool, ...]]]) -> None:
    ranked = rank_by_tests(programs(rows))
    assert sorted(item.index for item in ranked) == list(range(len(rows)))
    passed = [item.passed for item in ranked]
    assert passed == sorted(passed, reverse=True)
    assert all(item.index in item.group for item in ranked)


def test_ties_go_to_the_larger_group_then_the_shorter_program_then_the_lower_index() -> None:
    rows = [("xxx", (True, False)), ("xx", (False, True)), ("xx", (False, True)), ("xxxx", (False, True))]
    assert [item.index for item in rank_by_tests(programs(rows))] == [1, 2, 3, 0]


def test_agreement_weighs_programs_by_tests() -> None:
    lonely = ("a", (True, True, True, False))
    agreeing = ("bb", (True, True, False, False))
    ranked = rank_by_agreement(programs([lonely, agreeing, agreeing]))
    assert [(item.index, item.score) for item in ranked] == [(1, 4), (2, 4), (0, 3)]
    assert rank_by_tests(programs([lonely, agreeing, agreeing]))[0].index == 0


def test_a_program_that_reached_no_test_held_none() -> None:
    ranked = rank_by_tests(programs([("a", ()), ("b", (False, False)), ("cc", (True, False))]))
    assert [(item.index, item.group) for item in ranked] == [(2, (2,)), (0, (0, 1)), (1, (0, 1))]


def test_what_can_not_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="different numbers"):
        rank_by_tests(programs([("a", (True,)), ("b", (True, False))]))
    with pytest.raises(ValueError, match="two programs"):
        rank_by_tests([CheckedProgram(0, "a", ()), CheckedProgram(0, "b", ())])


def fenced(*blocks: str) -> str:
    return "Text.\n" + "\n".join(f"```python\n{block}\n```" for block in blocks)


def test_the_program_is_the_last_block_that_defines_the_entry_point() -> None:
    text = fenced(
        "def f(x): return 0", "def f(x): return 1", "def g(x):\n    return 'much longer than the others'"
    )
    assert extract_program(text, "f") == "def f(x): return 1"
    assert (extract_program(text) or "").startswith("def g")
    assert extract_program(fenced("def f(x): return 0", "print(f(1))")) == "def f(x): return 0"
    assert extract_program("def f(x): return 0") == "def f(x): return 0"
    assert extract_program("```python\ndef f(x):", finish_reason="length") is None


def test_a_samples_own_assertions_are_its_tests_and_not_its_program() -> None:
    text = fenced(
        "def f(x):\n    assert x\n    return 1\nassert f(1) == 1", "assert f( 2 )==1\nassert f(1) == 1"
    )
    assert own_tests(text) == ("assert f(1) == 1", "assert f(2) == 1")
    assert extract_program(text) == "def f(x):\n    assert x\n    return 1"
