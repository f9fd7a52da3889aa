"""Arithmetic as people write it, in one notation: digits, + - * / ^ ( ) % = and units set aside."""

from __future__ import annotations

import re

from pipeline.fusion.characters import plain_characters
from pipeline.fusion.markup import joined_thousands

APPROXIMATELY = "≈"
UNIT = "§"
"""Stands for a word after a number, with the word's place in order of appearance: 3 apples is 3§0;."""

_SEPARATORS = str.maketrans(
    {"。": "\n", "，": "\n", "；": "\n", "、": "\n", "！": "\n", "？": "\n", UNIT: " "}
)
_RUNS = re.compile(r"\d{60,}|[\s.]{30,}|[(\[{]{10,}|[-+*/^=%!)\]}]{20,}|[√≈]{5,}")
# Nobody's arithmetic, and the patterns below would take the square of their length.
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]{1,60})\}\s*\{([^{}]{1,60})\}")
_WORD_OPERATORS = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\(?:approx|simeq)(?![A-Za-z])|(?<=[\d)%])\s*约(?:等于|为)\s*(?=[-(\d])"), APPROXIMATELY),
    (re.compile(r"\\(?:left|right|[,;:! ()\[\]])|\\(?=[%$])|[`￥€£]|\$"), ""),
    (re.compile(r"(?<=[\d)%])\s*(?:plus|加上?)\s*(?=[-(\d])", re.I), " + "),
    (re.compile(r"(?<=[\d)%])\s*(?:minus|减去?)\s*(?=[-(\d])", re.I), " - "),
    (re.compile(r"(?<=[\d)%])\s*(?:divided by|除以)\s*(?=[-(\d])", re.I), " / "),
    (re.compile(r"(?<=[\d)%])\s*(?:times|multiplied by|乘以?|x)\s*(?=[-(\d])", re.I), " * "),
    (re.compile(r"(?<=[\d)%])\s*(?:equals|is equal to|等于|得到?)\s*(?=[-(\d])", re.I), " = "),
    (re.compile(r"(\d+(?:/\d+|(?:\.\d+)?\s*%))\s*of\s*(?=[(\d])", re.I), r"(\1) * "),
    (re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*的\s*(\d+(?:/\d+|(?:\.\d+)?%))"), r"\1 * (\2)"),
)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•>]|\d{1,2}[.)])[ \t]+", re.M)
_BOLD = re.compile(r"(?<![\w)*])\*\*(?![\s*])([^*\n]{1,80}?)(?<!\s)\*\*(?![\w(*])")
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|boxed|textbf)\s*\{([^{}]{0,80})\}")
_COUNTED = re.compile(r"(?<=\d)(?: ?([A-Za-z]{2,20}\b)(?!\()| ?([一-鿿]{1,4}))")
_NOT_UNITS = frozenset(
    ["and", "but", "for", "he", "if", "in", "is", "it", "of", "or", "she", "so", "then", "to", "we"]
)


def plain_arithmetic(text: str) -> str:
    """The same text with its arithmetic in one notation."""
    plain = plain_characters(_RUNS.sub("\n", text.translate(_SEPARATORS)))
    plain = _BULLET.sub("", _BOLD.sub(r"\1", plain))
    if "\\" in plain:
        for _ in range(3):
            plain = _FRACTION.sub(r"((\1)/(\2))", plain)
        plain = _TEXT.sub(r" \1", plain)
    plain = joined_thousands(plain)
    for pattern, instead in _WORD_OPERATORS:
        plain = pattern.sub(instead, plain)
    return _set_aside_units(plain.replace("{", "(").replace("}", ")").replace("==", "="))


def _set_aside_units(text: str) -> str:
    places: dict[str, int] = {}

    def mark(found: re.Match[str]) -> str:
        word = (found.group(1) or found.group(2)).casefold()
        if word in _NOT_UNITS:
            return found.group()
        return f"{UNIT}{places.setdefault(word.removesuffix('s'), len(places))};"

    return _COUNTED.sub(mark, text)
