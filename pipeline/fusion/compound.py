"""Amounts in several units, each a part of the one before: 2 hours 30 minutes, 5 ft 6 in, 3元5角."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

from pipeline.fusion.chinese import NUMERAL_CHARS, chinese_number
from pipeline.fusion.units import known_unit

_PART = re.compile(
    rf"(\d+(?:\.\d+)?|[{NUMERAL_CHARS}]+)\s*([A-Za-z]+\.?|[个]?[一-鿿]{{1,2}}?)"
    rf"(?:\s*,?\s*(?:and\s+|又|零)?(?=[\d{NUMERAL_CHARS}])|$)"
)
_SCALES = (
    ("year", "month", "week", "day", "h", "min", "s", "ms"),
    ("mi", "yd", "ft", "in"),
    ("km", "m", "dm", "cm", "mm"),
    ("t", "kg", "g", "mg"),
    ("lb", "oz"),
    ("l", "ml"),
    ("cny", "jiao", "fen"),
    ("usd", "cent"),
)


def compound_key(text: str) -> str | None:
    """The key of an amount in two or more units that fall along one scale, else ``None``."""
    if not 4 <= len(text) <= 60:
        return None
    at = 0
    parts: list[tuple[Fraction, str]] = []
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or found.end() == at:
            return None
        figures = found.group(1)
        value = Fraction(figures) if figures[0].isascii() else chinese_number(figures)
        unit = known_unit(found.group(2))
        if unit == "fen" and parts and parts[-1][1] == "h":
            unit = "min"
        if value is None or unit is None:
            return None
        parts.append((value, unit))
        at = found.end()
    units = [unit for _, unit in parts]
    for scale in _SCALES:
        if len(units) > 1 and all(unit in scale for unit in units):
            places = [scale.index(unit) for unit in units]
            if all(here < there for here, there in pairwise(places)):
                return f"amount:{' '.join(f'{value}{unit}' for value, unit in parts if value)}"
    return None
