"""Answers made to be expensive: each is small to write, and without bounds would take for ever to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PATHOLOGICAL: Final[Mapping[str, str]] = {
    "tower": r"5^{\,(5^{5^{5}})}",
    "tower of five": "10^{(6^{6^{6^{6}}})}",
    "plain tower": "2**30**5",
    "logarithms of a tower": r"\ln(\ln(\ln(\ln(\ln(5^{5^{5}})))))",
    "brackets": "(" * 100_000 + "1" + ")" * 100_000,
    "open brackets": "(" * 100_000,
    "braces": "{" * 100_000 + "1" + "}" * 100_000,
    "boxes": r"\boxed{" * 20_000 + "1" + "}" * 20_000,
    "5000 digits": "7" * 5_000,
    "5000 digits and a sum": "7" * 5_000 + "+1",
    "99000 digits and a letter": "7" * 99_000 + "x",
    "99000 zeros and a letter": "0" * 99_000 + "x",
    "99000 decimals and a letter": "0." + "0" * 99_000 + "x",
    "99000 backticks": "`" * 99_000,
    "percent of percent": "1" + "%" * 3_900,
    "degrees of degrees": "1" + "°" * 900,
    "a long product": "*".join(["1"] * 500),
    "a long quotient": "/".join(["2"] * 500),
    "sines": r"\sin" * 190 + " x",
    "roots": r"\sqrt" * 160 + "2",
    "exact roots": "+".join(["(3^{1200})^{1/63}"] * 50),
    "factorials": "+".join(["1/3299!"] * 100),
    "a list of large fractions": ",".join(["(7^9999/11^9999)"] * 190),
    "a list of functions": ",".join([r"\sin(x)^{17}+y"] * 190),
    "sets of sets": "{" + ",".join("{" + ",".join("1" * 19) + "}" for _ in range(90)) + "}",
    "a matrix": r"\begin{pmatrix}"
    + r"\\".join("&".join(["x^2+1"] * 13) for _ in range(40))
    + r"\end{pmatrix}",
    "spaces": " " * 100_000,
    "an option and spaces": "A" + " " * 100_000 + "x",
    "an option and lines": "选" + "\n" * 490 + "x",
    "formulas": "The answer is " + "Ca(OH)2" * 40 + "+",
    "a reaction": "+".join(["2H2O"] * 59) + " -> x",
    "functions in a word": "sinx" * 200 + "!",
    "ways to choose": "C(5,2)" * 150 + "(",
    "letters and units": "t = 5" + "s = 5" * 20_000,
    "a deep program": "x = 1\ny = " + "-" * 19_000 + "1",
    "steps": "7^9999/11^9999 + 1 = 2\n" * 1_700,
}
