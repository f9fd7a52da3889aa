"""Dates, times of day and ratios, which look like arithmetic and are not."""

from __future__ import annotations

import math
import re

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
_RATIO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?::|比|\bto\b|\\colon)\s*(\d{1,9}(?:\.\d{1,9})?)")


def moment_or_ratio(text: str) -> str | None:
    """The key of a date, time of day or ratio, else ``None``."""
    if len(text) > 40 or not any(map(str.isdigit, text)):
        return None
    return _date(text) or _clock(text) or _ratio(text)


def _date(text: str) -> str | None:
    for pattern in _DATES:
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            month = int(parts["monthday"]) if parts.get("monthday") else _MONTHS[parts["month"][:3].lower()]
            return _day(parts.get("year") or "", month, int(parts["day"]))
    if (found := _SLASHED.fullmatch(text)) is not None:
        first, second = int(found.group(1)), int(found.group(2))
        # Month first or day first is only clear where one of them can't be a month.
        if first > 12:
            first, second = second, first
        return _day(found.group(3), first, second)
    return None


def _day(year: str, month: int, day: int) -> str | None:
    return f"date:{year}-{month:02}-{day:02}" if 1 <= month <= 12 and 1 <= day <= 31 else None


def _clock(text: str) -> str | None:
    if (found := _CLOCK.fullmatch(text) or _HOUR.fullmatch(text)) is not None:
        hour, minute, second = int(found.group(1)), int(found.group(2) or 0), int(found.group(3) or 0)
        half = (found.group(4) or "").lower().replace(".", "")
        if half in ("am", "pm"):
            hour = hour % 12 + (12 if half == "pm" else 0)
        return _time(hour, minute, second)
    if (found := _CLOCK_ZH.fullmatch(text)) is not None and ":" not in text:
        hour = int(found.group(2))
        if found.group(1) in ("下午", "晚上") and hour < 12:
            hour += 12
        return _time(hour, 30 if found.group(4) else int(found.group(3) or 0), 0)
    return None


def _time(hour: int, minute: int, second: int) -> str | None:
    return f"time:{hour:02}:{minute:02}:{second:02}" if hour <= 24 and minute < 60 and second < 60 else None


def _ratio(text: str) -> str | None:
    found = _RATIO.fullmatch(text)
    if found is None:
        return None
    first, second = found.groups()
    if "." in first or "." in second:
        return f"ratio:{first}:{second}"
    divisor = math.gcd(int(first), int(second)) or 1
    return f"ratio:{int(first) // divisor}:{int(second) // divisor}"
