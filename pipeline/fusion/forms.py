"""What an answer is compared by, and the keys of numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_NUMERAL = 100_000
"""Digits of the longest number that is compared as one."""

# Zeros are stripped afterwards: a pattern that skips them takes the square of their number to fail.
_PLAIN_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]*))?")

_MARKED_NUMBER = re.compile(r"(\$?)(-?)([0-9]{1,3}(?:,[0-9]{3}){1,6}|[0-9]{1,20})(?:\.([0-9]{1,20}))?(\\?%?)")
_FRACTION = re.compile(r"(-?[0-9]{1,20})/([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class Canonical:
    """What decides equality.

    Attributes:
        key: of the value; empty when there is nothing to compare.
        unit: of a value that has one; the bare value equals it, another unit doesn't.
    """

    key: str
    unit: str = ""

    @property
    def name(self) -> str:
        """Key and unit in one, for a place inside a list or bracket."""
        return f"{self.key}~{self.unit}" if self.unit else self.key


def plain_number(text: str) -> Canonical | None:
    """The form of a decimal in plain digits, the way most answers are written."""
    if len(text) > MAX_NUMERAL or (numeral := _PLAIN_NUMBER.fullmatch(text)) is None:
        return None
    sign, whole, decimals = numeral.groups(default="")
    return Canonical(decimal_key(sign, whole.lstrip("0") or "0", decimals.rstrip("0")))


def marked_number(text: str) -> Canonical | None:
    """The form of a decimal with dollar, thousands or percent signs, or of a fraction of whole numbers."""
    if (found := _MARKED_NUMBER.fullmatch(text)) is not None:
        dollar, sign, whole, decimals, percent = found.groups()
        if dollar and percent:
            return None
        value = Fraction(f"{sign}{whole.replace(',', '')}.{decimals or 0}")
        return Canonical(number_key(value / 100 if percent else value), "usd" if dollar else "")
    if (found := _FRACTION.fullmatch(text)) is not None and int(found.group(2)) != 0:
        return Canonical(number_key(Fraction(int(found.group(1)), int(found.group(2)))))
    return None


def decimal_key(sign: str, whole: str, decimals: str) -> str:
    """The key of a decimal as digits, so that no length limit of ``int`` applies."""
    if not decimals:
        return f"n:{sign}{whole}" if whole != "0" else "n:0"
    return f"n:{sign}{whole}.{decimals}"


def number_key(value: Fraction) -> str:
    """The key of an exact value: as digits where it ends, else as a fraction."""
    below = value.denominator
    twos = (below & -below).bit_length() - 1
    fives = 0
    rest = below >> twos
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    if rest != 1 or places > 4_000:
        return f"q:{value.numerator:x}/{below:x}"
    digits = _digits(abs(value.numerator) * 10**places // below).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return decimal_key(sign, digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0"))


def _digits(value: int) -> str:
    """Decimal digits of any length; ``str`` refuses more than 4,300."""
    if value.bit_length() < 13_000:
        return str(value)
    half = value.bit_length() * 3 // 20
    above, below = divmod(value, 10**half)
    return _digits(above) + _digits(below).rjust(half, "0")
