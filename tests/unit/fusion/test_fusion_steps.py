from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.fusion.steps import MAX_STEPS, computation_steps


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("3 + 4 = 7", [True]),
        ("3 + 4 = 8", [False]),
        ("3 + 4 = 7 = 14 / 2", [True, True]),
        ("5 + 3 = 8 + 2 = 10", [False, True]),
        ("So x = 3 + 4 = 7.", [True]),
        ("3 × 4 = 12，12 ÷ 4 = 3。", [True, True]),
        ("小明有8加5等于13个苹果", [True]),
        ("12除以4等于4", [False]),
        ("50的20% = 10", [True]),
        ("20% of 50 = 10", [True]),
        ("1/2 + 1/3 = 5/6", [True]),
        ("1/2 + 1/3 = 2/5", [False]),
        ("2 1/2 + 1/2 = 3", [True]),
        ("$1,000 * 3 = $3,000", [True]),
        ("5 apples + 3 apples = 8 apples", [True]),
        ("5 apples + 3 apples = 9 apples", [False]),
        ("5 boxes × 3 apples = 15 apples", [True]),
        ("3 × 4元 = 12元", [True]),
        (r"\frac{1}{2} \times 4 = 2", [True]),
        (r"\(2^{10} = 1024\)", [True]),
        ("2**3 = 8", [True]),
        ("2³ = 9", [False]),
        ("3! = 6", [True]),
        ("6 * 7 = 42!", [True]),
        ("(3 + 4) * 2 = 14", [True]),
        ("(so 3 + 4 = 7)", [True]),
        ("- 3 + 4 = 7", [True]),
        ("-3 + 5 = 2", [True]),
        ("Total: 3 + 4 = **7**", [True]),
        (r"3 + 4 = \boxed{7}", [True]),
        (r"\sqrt{16} = 4", [True]),
        ("3 plus 4 equals 7", [True]),
        ("16 - 3 - 4 = <<16-3-4=9>>9", [True]),
    ],
)
def test_steps_are_found_and_checked(text: str, holds: list[bool]) -> None:
    assert [step.holds for step in computation_steps(text)] == holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("10 / 3 = 3.33", True),
        ("2 / 3 = 0.66", True),
        ("10 / 3 ≈ 3.3", True),
        ("√2 ≈ 1.41", True),
        ("0.1 + 0.2 = 0.31", False),
        ("10 / 3 = 3.43", False),
        ("1/4 = 25%", True),
        ("3/12 × 100 = 25%", True),
        ("3/12 × 100 = 35%", False),
    ],
)
def test_what_is_rounded_or_in_percent_may_be_written_so(text: str, holds: bool) -> None:
    assert [step.holds for step in computation_steps(text)] == [holds]


@pytest.mark.parametrize(
    "text",
    [
        "2x + 3 + 4 = 7",
        "f(3) = 4 + 1",
        "x - 4 + 3 = 7",
        "3 + 4 = 7x",
        "3 + 4 = 7 + y",
        "5 km + 300 m = 5300 m",
        "100 - 20% = 80",
        "1,5 + 2 = 3",
        "5 = 5",
        "9^9^9 = 1",
        "1/0 = 1",
        "2026-11-29",
        "a = b",
        "",
    ],
)
def test_what_can_not_be_read_for_sure_is_no_step(text: str) -> None:
    assert computation_steps(text) == ()


NUMBERS = st.integers(0, 9_999)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, NUMBERS, st.sampled_from("+-*"), st.integers(1, 50))
def test_a_true_sum_holds_and_a_false_one_does_not(a: int, b: int, sign: str, off: int) -> None:
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    (right,) = computation_steps(f"We see {a} {sign} {b} = {value} here.")
    (wrong,) = computation_steps(f"We see {a} {sign} {b} = {value + off} here.")
    assert (right.holds, wrong.holds) == (True, False)


@settings(max_examples=60, deadline=None)
@given(st.text("0123456789+-*/^()=≈%!.,$ §√x个加等于\n\\{}", max_size=60))
def test_no_text_raises(text: str) -> None:
    computation_steps(text)


def test_work_is_bounded() -> None:
    assert len(computation_steps("1 + 1 = 2\n" * 3_000)) == MAX_STEPS
    # Each of these costs milliseconds, all of them seconds: the budget ends it.
    assert len(computation_steps("7^9999/11^9999 + 1 = 2\n" * 1_000)) < MAX_STEPS
