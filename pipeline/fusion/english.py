"""Numbers in English words: twelve, twenty-five, one hundred and five, two thirds, half; and magnitudes."""

from __future__ import annotations

import re
from fractions import Fraction

_SMALL = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    word: 20 + 10 * place
    for place, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    )
}
MAGNITUDES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
    "tenth": 10,
}
_PARTS_OF = frozenset(_PARTS) | {f"{word}s" for word in _PARTS}
_WORDS = re.compile(r"[a-z]+")


def english_number(text: str) -> Fraction | None:
    """The value of a number written in words only, else ``None``."""
    if len(text) > 120 or not re.fullmatch(r"[A-Za-z]+(?:[ -]+[A-Za-z]+)*", text):
        return None
    words = _WORDS.findall(text.lower())
    sign = 1
    if words and words[0] in ("minus", "negative"):
        sign, words = -1, words[1:]
    if "and" in words[1:-1] and words[-1] in _PARTS_OF:
        # One and a half, two and three quarters: a whole number and a fraction.
        split = len(words) - 1 - words[::-1].index("and")
        whole = _cardinal(words[:split])
        rest = english_number(" ".join(words[split + 1 :]))
        return None if whole is None or rest is None else sign * (whole + rest)
    part = _PARTS.get(words[-1].removesuffix("s")) or _PARTS.get(words[-1]) if words else None
    if part is not None:
        above = Fraction(1) if words[:-1] in ([], ["a"], ["one"]) else _cardinal(words[:-1])
        return None if above is None else sign * above / part
    value = _cardinal(words)
    return None if value is None else sign * value


def _cardinal(words: list[str]) -> Fraction | None:
    if words[:1] == ["a"] and words[1:2] and words[1] in MAGNITUDES:
        words = ["one", *words[1:]]
    if not words or words[0] == "and" or words[-1] == "and":
        return None
    total = section = 0
    known = False
    for word in words:
        if word == "and" and known:
            continue
        if word in _SMALL:
            section += _SMALL[word]
        elif word in ("hundred", "dozen") and known:
            section *= MAGNITUDES[word]
        elif word in MAGNITUDES and known:
            total, section = total + section * MAGNITUDES[word], 0
        else:
            return None
        known = True
    return Fraction(total + section)
