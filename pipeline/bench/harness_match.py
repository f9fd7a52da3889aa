r"""Normalised exact match, as evaluation harnesses compare final answers of mathematics: text against text.

A small version of our own, from the published behaviour (Lewkowycz et al., Solving Quantitative Reasoning Problems
with Language Models, 2022, appendix D.1; lm-evaluation-harness uses it for MATH): the right side of ``=``, no
dollars, wrappers, units or articles, fractions and roots with their braces, thousands marks out, a last point and
case ignored. No value is ever computed, so 0.5 is not 1/2.
"""

from __future__ import annotations

import re
from typing import Final

_WRAPPERS = re.compile(
    r"\\(?:text|textbf|textrm|mathrm|mbox|overline|boxed|fbox|operatorname)\s*\{([^{}]*)\}"
)
_SPACING = re.compile(r"\\(?:[!,;: ]|left(?![a-z])|right(?![a-z])|quad|qquad)|~")
_UNITS: Final = (
    "square units",
    "square",
    "cubic",
    "units",
    "unit",
    "ways",
    "integers",
    "dollars",
    "dollar",
    "cents",
    "mph",
    "inches",
    "hours",
    "hour",
    "minutes",
    "seconds",
    "days",
    "km",
    "cm",
    "ft",
    "feet",
    "meters",
    "miles",
    "pounds",
    "points",
    "digits",
    "degrees",
    "students",
    "edges",
    "apples",
)
_UNIT = re.compile(rf"(?<![A-Za-z\\])(?:{'|'.join(_UNITS)})(?![A-Za-z])(?:\s*\^\s*\{{?[23]\}}?)?")
_DEGREE = re.compile(r"\^\s*\{?\\circ\}?|°|\\degree")
_SHORT_FRACTION = re.compile(r"\\frac\s*(?:(\d)\s*(\d)|(\d)\s*\{([^{}]*)\})")
_SHORT_ROOT = re.compile(r"\\sqrt\s*([A-Za-z0-9])")
_SIMPLE_FRACTION = re.compile(r"(?<![\w}])(-?\d+)\s*/\s*(\d+)(?![\w{])")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ZEROS = re.compile(r"(-?\d+)\.(\d*?)0*")


def normalised(answer: str) -> str:
    """The text by which two answers are compared."""
    text = answer.rpartition("=")[2] if answer.count("=") == 1 else answer
    for _ in range(3):
        text = _WRAPPERS.sub(r"\1", text)
    text = text.replace("\\$", "").replace("$", "").replace("\\%", "").replace("%", "")
    text = _SPACING.sub("", text).replace("dfrac", "frac").replace("tfrac", "frac")
    text = _UNIT.sub("", _DEGREE.sub("", text))
    text = re.sub(r"(?i)^\s*(?:the answer is|an?|the)\s+|(?<=\s)and(?=\s)", " ", text)
    text = _SHORT_FRACTION.sub(lambda m: rf"\frac{{{m[1] or m[3]}}}{{{m[2] or m[4]}}}", text)
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text)
    text = _SIMPLE_FRACTION.sub(r"\\frac{\1}{\2}", text)
    text = re.sub(r"\s+", "", text).rstrip(".").casefold()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if text.startswith("."):
        text = f"0{text}"
    if (number := _ZEROS.fullmatch(text)) is not None:
        text = f"{number[1]}.{number[2]}" if number[2] else number[1]
    return text


def normalised_match(a: str, b: str) -> bool:
    """Whether both are the same text once normalised; what is empty then equals nothing."""
    return bool(normalised(a)) and normalised(a) == normalised(b)
