"""Dates, times of day and ratios, which look like arithmetic and are not."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from pipeline.fusion.chinese import chinese_number, digit_run
from pipeline.fusion.english import english_number

_MONTHS = {
    name: place + 1
    for place, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    )
}
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DATES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?P<year>\d{4})[-/.](?P<monthday>\d{1,2})[-/.](?P<day>\d{1,2})",
        r"(?P<year>\d{4})年(?P<monthday>\d{1,2})月(?P<day>\d{1,2})[日号]?",
        r"(?P<monthday>\d{1,2})月(?P<day>\d{1,2})[日号]",
        r"(?P<year>\d{4})年(?P<monthday>\d{1,2})月份?(?P<day>)",
        r"(?P<monthday>\d{1,2})月份?(?P<day>)",
        rf"{_MONTH}(?:\s*,?\s+(?:of\s+)?(?P<year>\d{{4}}))?(?P<day>)",
        rf"{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:\s*,?\s+(?P<year>\d{{4}}))?",
        rf"(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:\s*,?\s+(?P<year>\d{{4}}))?",
    )
)
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_CLOCK = re.compile(r"(\d{1,2})\s*:\s*(\d{2})(?:\s*:\s*(\d{2}))?\s*(a\.?m\.?|p\.?m\.?)?", re.I)
_HOUR = re.compile(r"(\d{1,2})()()\s*(a\.?m\.?|p\.?m\.?|o'clock)", re.I)
_CLOCK_ZH = re.compile(
    r"(凌晨|早上|上午|中午|下午|晚上)?\s*(\d{1,2})\s*(?:点钟?|时|:)\s*(?:(\d{1,2})分?|(半)|(整))?"
)
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEK_ZH = {**{mark: place + 1 for place, mark in enumerate("一二三四五六日")}, "天": 7}
_WEEKDAY_ZH = re.compile(r"(?:星期|礼拜|周)([一二三四五六日天])")
_NAMED_HOURS = {"noon": 12, "12 noon": 12, "正午": 12, "中午": 12, "midnight": 0, "12 midnight": 0, "午夜": 0}
_ZH_FIGURES = re.compile(r"[〇零一二两三四五六七八九十]{1,4}(?=年|月|日|号|点|时|分(?!之)|$)")
_ZH_DECIMAL = re.compile(r"点[〇零一二两三四五六七八九十]+$|分之|^[^年月日号点时分]*$")
_PAST = re.compile(r"(half|a quarter|quarter|[a-z]+(?:-[a-z]+)?)(?: minutes)? (past|to) ([a-z]+)", re.I)
_RATIOS = re.compile(r"\d{1,9}(?:\s*:\s*\d{1,9}){2,7}")
_RATIO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?::|比|\bto\b|\\colon)\s*(\d{1,9}(?:\.\d{1,9})?)")


def moment_or_ratio(text: str) -> str | None:
    """The key of a date, time of day or ratio, else ``None``."""
    if len(text) > 40:
        return None
    if (found := _WEEKDAY_ZH.fullmatch(text)) is not None:
        return f"weekday:{_WEEK_ZH[found.group(1)]}"
    if text.lower() in _WEEK:
        return f"weekday:{_WEEK.index(text.lower()) + 1}"
    if (hour := _NAMED_HOURS.get(text.lower())) is not None:
        return _time(hour, 0, 0)
    text = _ZH_FIGURES.sub(_in_figures, text) if not text.isascii() and not _ZH_DECIMAL.search(text) else text
    if not any(map(str.isdigit, text)):
        return _past(text) or _date(text)
    return _date(text) or _clock(text) or _ratio(text)


def _date(text: str) -> str | None:
    for pattern in _DATES:
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            month = int(parts["monthday"]) if parts.get("monthday") else _MONTHS[parts["month"][:3].lower()]
            return _day(parts.get("year") or "", month, int(parts["day"]) if parts["day"] else None)
    if (found := _SLASHED.fullmatch(text)) is not None:
        first, second = int(found.group(1)), int(found.group(2))
        # Month first or day first is only clear where one of them can't be a month.
        if first > 12:
            first, second = second, first
        return _day(found.group(3), first, second)
    return None


def _day(year: str, month: int, day: int | None) -> str | None:
    if day is None:
        return f"date:{year}-{month:02}" if 1 <= month <= 12 else None
    return f"date:{year}-{month:02}-{day:02}" if 1 <= month <= 12 and 1 <= day <= 31 else None


def _clock(text: str) -> str | None:
    if (found := _CLOCK.fullmatch(text) or _HOUR.fullmatch(text)) is not None:
        hour, minute, second = int(found.group(1)), int(found.group(2) or 0), int(found.group(3) or 0)
        half = (found.group(4) or "").lower().replace(".", "")
        if half in ("am", "pm"):
            hour = hour % 12 + (12 if half == "pm" else 0)
        return _time(hour, minute, second)
    if (found := _CLOCK_ZH.fullmatch(text)) is not None and (found.group(1) or ":" not in text):
        hour = int(found.group(2))
        if found.group(1) in ("下午", "晚上") and hour < 12:
            hour += 12
        return _time(hour, 30 if found.group(4) else int(found.group(3) or 0), 0)
    return None


def _past(text: str) -> str | None:
    """Half past three, ten to nine."""
    if (found := _PAST.fullmatch(text)) is None:
        return None
    amount, side, name = found.group(1).lower().removeprefix("a "), found.group(2).lower(), found.group(3)
    minutes = {"half": 30, "quarter": 15}.get(amount) or english_number(amount)
    hour = english_number(name)
    if minutes is None or hour is None or not 0 < minutes < 60 or not 1 <= hour <= 12:
        return None
    after = int(hour) * 60 + (int(minutes) if side == "past" else -int(minutes))
    return _time(after // 60, after % 60, 0)


def _in_figures(found: re.Match[str]) -> str:
    figures = found.group()
    value = digit_run(figures) if len(figures) == 4 else chinese_number(figures)
    return figures if value is None else str(value)


def _time(hour: int, minute: int, second: int) -> str | None:
    return f"time:{hour:02}:{minute:02}:{second:02}" if hour <= 24 and minute < 60 and second < 60 else None


def _ratio(text: str) -> str | None:
    if _RATIOS.fullmatch(text) is not None:
        terms = [int(term) for term in text.split(":")]
        divisor = math.gcd(*terms) or 1
        return f"ratio:{':'.join(str(term // divisor) for term in terms)}"
    found = _RATIO.fullmatch(text)
    if found is None:
        return None
    first, second = found.groups()
    above, below = Fraction(first), Fraction(second)
    if not below:
        return f"ratio:{int(bool(above))}:0"
    return f"ratio:{(above / below).numerator}:{(above / below).denominator}"
