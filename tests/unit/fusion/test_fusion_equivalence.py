from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.fusion import canonical, equivalent

DATA = Path(__file__).parents[2] / "data"


def pairs(name: str) -> list[tuple[str, str, bool]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [(row["a"], row["b"], row["equal"]) for row in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    pairs("equivalence.jsonl") + pairs("equivalence_more.jsonl") + pairs("equivalence_kinds.jsonl"),
)
def test_pairs_hold_in_both_directions(a: str, b: str, equal: bool) -> None:
    assert equivalent(a, b) is equal
    assert equivalent(b, a) is equal


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_is_no_answer_and_equals_nothing(blank: str) -> None:
    assert not canonical(blank).key
    assert not equivalent(blank, blank)


@pytest.mark.parametrize(
    "answer",
    [
        r"5^{\,(5^{5^{5}})}",
        "10^{(6^{6^{6^{6}}})}",
        "2**30**5",
        "(" * 100_000 + "1" + ")" * 100_000,
        "{" * 2_000 + "}" * 2_000,
        "7" * 5_000,
        "7" * 200_000,
        "1e99999",
        "9" * 900 + "^" + "9" * 50,
        "((x+y)^9+z^{99})^{99}",
        "3000!!!",
        r"\sin(10^{100})",
        "def f():\n  return " + "(" * 300,
        "def f(x):\n  return " + "-" * 15_000 + "1",
        "1,2," * 1_000,
        "\ud800",
        "\x00",
        "亿万亿万" * 10,
        r"\frac" * 900,
        r"\pm" * 300 + "1",
    ],
    ids=lambda text: ascii(text[:16]),
)
def test_pathological_answers_equal_themselves_and_not_nine(answer: str) -> None:
    assert equivalent(answer, answer)
    assert not equivalent(answer, "9")


def test_numbers_longer_than_the_digit_limit_of_int() -> None:
    digits = "7" * 5_000
    assert equivalent(digits, digits)
    assert not equivalent(digits, digits[:-1] + "8")
    assert equivalent(digits, digits + ".0")


def test_towers_that_are_not_evaluated_keep_their_marks() -> None:
    assert not equivalent("2**30**5", "2**30**4")
    assert not equivalent("(4000!)^3", "(4000)^3!")


@pytest.mark.parametrize(
    "answer", ["3000! * 2999!", "10^{9000} * 10^{9000}", "2**30**5", "(2^{30000})^{30000}"]
)
def test_large_values_are_compared_as_text(answer: str) -> None:
    assert canonical(answer).key.startswith("t:")


def test_ordinary_answers_are_right_after_pathological_ones() -> None:
    for exponent in range(8):
        canonical(f"{exponent + 2}^{{9^{{9^{{9^9}}}}}}")
    assert all(equivalent(f"{number}.0", f"{number}") for number in range(20))


def test_infinity_survives_unit_removal() -> None:
    assert "inf" in canonical(r"(-\infty,-5]\cup[5,\infty)").key


def test_unit_leniency_is_between_bare_and_united_only() -> None:
    assert equivalent("5", "5 cm")
    assert equivalent("5", "5 km")
    assert not equivalent("5 cm", "5 km")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("def f(x, y):\n    return g(x=y)\n", "def f(a, b):\n    return g(x=b)\n", True),
        ("def f(x):\n    return f(x=x)\n", "def f(y):\n    return f(x=y)\n", False),
        ("def f(x):\n    return partial(f, x=1)\n", "def f(y):\n    return partial(f, x=1)\n", False),
        ("def f(*, k=k):\n    return k\n", "def f(*, j=j):\n    return j\n", False),
        ("def f(n):\n    return [k for k in n]\n", "def f(m):\n    return [j for j in m]\n", True),
        (
            "def f(n):\n    def g():\n        return n\n    return g\n",
            "def f(k):\n    def h():\n        return k\n    return h\n",
            True,
        ),
        (
            "def f(n):\n    def g(n):\n        return n\n    return g\n",
            "def f(n):\n    def g(m):\n        return n\n    return g\n",
            False,
        ),
        ("def f(a, b):\n    return a - b\n", "def f(a, b):\n    return b - a\n", False),
        ("def f(x):\n    return math.sin(x)\n", "def f(x):\n    return math.cos(x)\n", False),
        ("def f(x):\n    return eval('x')\n", "def f(y):\n    return eval('x')\n", False),
        ("x = 1\nprint(x)\n", "y = 1\nprint(y)\n", False),
        (
            "class A:\n    '''Doc.'''\n    def m(self):\n        return 1\n",
            "class A:\n    def m(this):\n        return 1\n",
            True,
        ),
    ],
)
def test_programs(a: str, b: str, equal: bool) -> None:
    assert equivalent(a, b) is equal
    assert equivalent(b, a) is equal


ANSWERS = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="0123456789.,+-*/^%!()[]{}$\\ xeπ°=<>|_", max_size=25),
    st.lists(
        st.sampled_from(
            [
                r"\frac",
                r"\sqrt",
                r"\pm",
                r"\text{",
                r"\infty",
                "{",
                "}",
                "1",
                "2",
                "x",
                "^",
                "(",
                ")",
                ",",
                " or ",
                "万",
                "分之",
                "三",
                "=",
                " cm",
            ]
        ),
        max_size=12,
    ).map("".join),
)


@settings(max_examples=150, deadline=None)
@given(ANSWERS)
def test_reflexive_and_total(answer: str) -> None:
    assert equivalent(answer, answer) is bool(answer.strip())


@settings(max_examples=150, deadline=None)
@given(ANSWERS, ANSWERS)
def test_symmetric(a: str, b: str) -> None:
    assert equivalent(a, b) is equivalent(b, a)


@settings(max_examples=120, deadline=None)
@given(st.fractions(max_denominator=10_000), st.integers(1, 50))
def test_every_way_to_write_a_fraction(value: object, factor: int) -> None:
    above, _, below = str(value).partition("/")
    below = below or "1"
    sign, size = ("-" if above.startswith("-") else ""), above.lstrip("-")
    ways = [
        f"{above}/{below}",
        rf"{sign}\frac{{{size}}}{{{below}}}",
        f"{int(above) * factor}/{int(below) * factor}",
    ]
    ways += [f"x = {above}/{below}", f"$\\dfrac{{{above}}}{{{below}}}$", f"{int(above) * 100}/{below}%"]
    first, *others = random.Random(factor).sample(ways, len(ways))
    assert all(equivalent(first, other) for other in others)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 99_999_999))
def test_chinese_numerals(value: int) -> None:
    assert equivalent(in_chinese(value), str(value))


def in_chinese(value: int) -> str:
    if value >= 10_000:
        above, below = divmod(value, 10_000)
        gap = "零" if 0 < below < 1_000 else ""
        return in_chinese(above) + "万" + (gap + in_chinese(below) if below else "")
    text, gap = "", False
    for place, mark in ((1_000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = value // place % 10
        if digit:
            text += ("零" if gap and text else "") + "零一二三四五六七八九"[digit] + mark
            gap = False
        else:
            gap = True
    return text or "零"
