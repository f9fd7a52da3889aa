"""A value with what it is counted in: $18.50, 24\\mbox{ cm}^2, 3 million dollars, 60^\\circ, 十二元."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pipeline.fusion.algebra import NotAlgebraError, parse, symbols
from pipeline.fusion.chinese import NUMERAL_CHARS, chinese_number
from pipeline.fusion.english import MAGNITUDES, english_number
from pipeline.fusion.evaluate import UnboundedError, constant
from pipeline.fusion.units import known_unit, noun_unit, split_currency

_ENDING = re.compile(
    r"^(?P<head>.*\S)\s*(?:\\(?:text|mbox|mathrm|textrm|,)\s*\{(?P<boxed>[^{}]*)\}(?P<power>\s*\^\s*\{?\s*-?\d\s*\}?)?)$",
    re.S,
)
_DEGREES = re.compile(
    r"^(?P<head>.+?)\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree|°|度)\s*(?P<scale>(?:\\(?:text|mathrm)\{)?[CF]?\}?)$",
    re.S,
)
_ANGLE_FUNCTION = re.compile(r"(?:sin|cos|tan|cot|sec|csc)")
_PLAIN = re.compile(
    r"^(?P<head>.*?(?:[\d)}!]|\\pi))(?P<gap>\s*)(?P<unit>[^\d\s\\{}()=<>+*,;:^!%|-][^\\{}()=<>+*,;:!%|]*)$",
    re.S,
)
_PERCENT_WORD = re.compile(r"\s*(?:\\?%|percent|per cent|percentage points?)$", re.I)
_HANZI = re.compile(
    rf"^(?P<sign>[负-]?)(?P<number>(?:第|百分之|千分之)?[\d.点又分之半/{NUMERAL_CHARS}]*?)(?P<unit>[一-鿿]*整?)$"
)
_MAGNITUDE = re.compile(
    r"^(?P<head>.*[\d)}])\s*(?P<word>(?:dozen|hundred|thousand|million|billion|trillion)(?:\s+(?:thousand|million|billion|trillion))*|万亿|[万亿萬億])(?P<rest>.*)$",
    re.I | re.S,
)
_ZH_MAGNITUDE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "万亿": 10**12}
_EACH_ZH = re.compile(r"每(小时|分钟?|秒钟?|天|日|周|月|年|人|个)(.+)")
"""每小时60千米 is 60千米每小时."""
_MIXED_WORDS = re.compile(r"(\d{1,9})\s+and\s+([A-Za-z][A-Za-z -]{3,30})", re.I)
_ABOUT = re.compile(r"^(?:about|approximately|around|exactly|a total of|约|大约|共|一共|总共)\s*", re.I)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A constant, exact or by its digits, and its unit; an empty unit is a bare number."""

    value: Fraction | str
    unit: str


def quantity(text: str) -> Quantity | None:
    """The quantity that a text is, else ``None``."""
    text = _ABOUT.sub("", text).strip()
    text = _EACH_ZH.sub(r"\2/\1", text) if text.startswith("每") else text
    bare, currency = split_currency(text)
    found = _united(bare) if not currency else _currency_amount(bare, currency)
    return found or _in_words(text)


def number(text: str) -> Fraction | str | None:
    """The value of a constant expression, else ``None``."""
    percent = _PERCENT_WORD.search(text)
    if text.endswith("‰"):
        value = _constant(text[:-1])
        return value / 1000 if isinstance(value, Fraction) else None
    if percent is not None and percent.start() > 0:
        # Not number() again: a percentage of a percentage is nobody's answer, and a thousand of them recurse.
        value = _constant(text[: percent.start()])
        return value / 100 if isinstance(value, Fraction) else None
    return _constant(text)


def _constant(text: str) -> Fraction | str | None:
    try:
        tree = parse(text)
        return None if symbols(tree) else constant(tree)
    except (NotAlgebraError, UnboundedError):
        return None


def _currency_amount(text: str, currency: str) -> Quantity | None:
    found = _united(text)
    if found is None:
        return None
    return Quantity(
        found.value, found.unit if currency == "usd" and found.unit in ("usd", "cad") else currency
    )


def _united(text: str) -> Quantity | None:
    # Before plain numbers: as algebra, 60° is a number of radians. That is for inside a sine.
    if (found := _DEGREES.match(text)) is not None and not _ANGLE_FUNCTION.search(found["head"]):
        scale = re.sub(r"[^CF]", "", found["scale"])
        if (value := _amount(found["head"])) is not None:
            return Quantity(value, f"deg{scale}")
    if (value := number(text)) is not None:
        return Quantity(value, "")
    if (found := _MAGNITUDE.match(text)) is not None and (value := number(found["head"])) is not None:
        words = found["word"].lower().split()
        times = _ZH_MAGNITUDE.get(found["word"]) or math.prod(MAGNITUDES[word] for word in words)
        unit = _unit(found["rest"].strip(), loose=True)
        if unit is not None and isinstance(value, Fraction):
            return Quantity(value * times, unit)
    for head, ending, loose in _endings(text):
        unit = _unit(ending, loose=loose)
        if unit is not None and (value := number(head)) is not None:
            return Quantity(value, unit)
    return None


def _endings(text: str) -> Iterator[tuple[str, str, bool]]:
    if (found := _ENDING.match(text)) is not None:
        yield found["head"], found["boxed"] + (found["power"] or ""), True
    # From the first place where a unit can begin, so that 5 m/s^2 is not read as 5 m over s^2.
    if (
        found := re.match(
            r"^(?P<head>[-+]?(?:\d+\s+\d+/\d+|[\d.]+\s*/\s*[\d.]+|[\d.]*\s*\\pi(?![A-Za-z])|[\d.]+))(?P<gap>\s*)(?P<unit>[^\d\s.].*)$",
            text,
            re.S,
        )
    ) is not None:
        unit = re.sub(r"\\(?:text|mbox|mathrm)\s*\{([^{}]*)\}", r" \1", found["unit"]).strip()
        single = len(unit) == 1 and unit.isascii() and unit.isalpha()
        # After 2\\pi one letter is a factor, but for square and cubic metres.
        factor = found["head"].endswith("\\pi") and re.match(r"[A-Za-z](?![A-Za-z])(?!(?<=m)\^\{?[23])", unit)
        if not factor and (not single or (found["gap"] and unit in "mgshlLNJWVAK")):
            yield found["head"], unit, bool(found["gap"]) or not unit[0].isascii()
    if (found := _PLAIN.match(text)) is None:
        return
    # One letter may be a factor: 2\\pi h.
    if found["head"].endswith("\\pi") and len(found["unit"]) < 2:
        return
    if found["gap"] or not found["unit"][0].isascii():
        yield found["head"], found["unit"], True


def _unit(text: str, *, loose: bool) -> str | None:
    text = text.strip()
    if not text:
        return ""
    known = known_unit(text)
    if known is not None:
        return known
    return noun_unit(text) if loose else None


def _amount(text: str) -> Fraction | str | None:
    value = number(text)
    return value if value is not None else chinese_number(text)


def _in_words(text: str) -> Quantity | None:
    if text.isascii():
        return _english(text)
    if len(text) > 60:
        return None
    compact = text.replace(" ", "")
    if (value := chinese_number(compact)) is not None:
        return Quantity(value, "")
    found = _HANZI.match(compact)
    if found is None:
        return None
    body = compact[len(found["sign"]) :]
    # The longest known unit first, so that 五千米 is five kilometres; then the longest numeral.
    for split in range(1, len(body)):
        unit = known_unit(body[split:].removesuffix("整"))
        if unit is not None and (value := chinese_number(body[:split]) or _digits(body[:split])) is not None:
            return Quantity(-value if found["sign"] else value, unit)
    if body.endswith("整") and (value := chinese_number(body[:-1])) is not None:
        return Quantity(-value if found["sign"] else value, "")
    for split in range(len(body) - 1, 0, -1):
        value = chinese_number(body[:split]) or _digits(body[:split])
        unit = noun_unit(body[split:])
        if value is not None and unit is not None:
            return Quantity(-value if found["sign"] else value, unit)
    return None


def _digits(text: str) -> Fraction | None:
    return Fraction(text) if re.fullmatch(r"\d{1,30}(?:\.\d{1,30})?", text) else None


def _english(text: str) -> Quantity | None:
    if (mixed := _MIXED_WORDS.fullmatch(text)) is not None:
        part = english_number(mixed.group(2))
        return None if part is None or not 0 < part < 1 else Quantity(int(mixed.group(1)) + part, "")
    if (value := english_number(text)) is not None:
        return Quantity(value, "")
    if (percent := _PERCENT_WORD.search(text)) is not None:
        value = english_number(text[: percent.start()].strip())
        return None if value is None else Quantity(value / 100, "")
    words = text.split()
    for split in range(len(words) - 1, 0, -1):
        value = english_number(" ".join(words[:split]))
        if value is not None:
            unit = _unit(" ".join(words[split:]), loose=True)
            return None if unit is None else Quantity(value, unit)
    return None
