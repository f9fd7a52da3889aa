"""Chinese numerals: 两千两百二十五, 3万5千, 负三分之二, 百分之五十, 零点五, 伍仟."""

from __future__ import annotations

import re
from fractions import Fraction

_DIGITS = {
    **{
        char: value
        for value, chars in enumerate(
            ("零〇", "一壹", "二贰两俩", "三叁仨", "四肆", "五伍", "六陆", "七柒", "八捌", "九玖")
        )
        for char in chars
    },
    **{str(digit): digit for digit in range(10)},
}
_TENS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
NUMERAL_CHARS = "零〇一二三四五六七八九十百千万亿两俩仨壹贰叁肆伍陆柒捌玖拾佰仟萬億兆"
_SCORES = {"廿": "二十", "卅": "三十"}
_PER = {"百": 100, "千": 1000, "万": 10_000}
_TENTHS = re.compile(r"([一二两三四五六七八九十\d])成([一二三四五六七八九]?)")
_INTEGER = re.compile(rf"[\d.{NUMERAL_CHARS}]+")


def chinese_number(text: str) -> Fraction | None:
    """The value of a numeral with at least one Chinese part, else ``None``."""
    text = text.replace(" ", "")
    if not text or len(text) > 60 or text.isascii():
        return None
    if text[0] in "负-":
        value = chinese_number(text[1:])
        return None if value is None else -value
    if text.startswith("第"):
        return _number(text[1:])
    if text[1:3] == "分之" and text[0] in _PER:
        value = _number(text[3:])
        return None if value is None else value / _PER[text[0]]
    if (tenths := _TENTHS.fullmatch(text)) is not None:
        whole, below = _number(tenths.group(1)), _number(tenths.group(2) or "零")
        return None if whole is None or below is None else whole / 10 + below / 100
    if text[0] in _SCORES:
        return _number(_SCORES[text[0]] + text[1:])
    if text.endswith("打") and (dozens := _number(text[:-1])) is not None:
        return 12 * dozens
    if text.endswith("个半") and (whole := _number(text[:-2])) is not None:
        return whole + Fraction(1, 2)
    if text in ("一半", "半"):
        return Fraction(1, 2)
    if "分之" in text or ("又" in text and "/" in text):
        return _fraction(text)
    return _number(text)


def digit_run(text: str) -> str | None:
    """The digits of a numeral that is read digit by digit, like a year; else ``None``."""
    digits = [_DIGITS.get(char) for char in text]
    return None if None in digits else "".join(map(str, digits))


def _fraction(text: str) -> Fraction | None:
    whole_text, mixed, rest = text.rpartition("又")
    below_text, worded, above_text = rest.partition("分之")
    if not worded:
        above_text, _, below_text = rest.partition("/")
    below, above = _number(below_text), _number(above_text)
    whole = _number(whole_text) if mixed else Fraction(0)
    if below is None or above is None or whole is None or below == 0:
        return None
    return whole + above / below


def _number(text: str) -> Fraction | None:
    if "点" in text:
        whole_text, _, decimals = text.partition("点")
        whole = _integer(whole_text)
        digits = [_DIGITS.get(char) for char in decimals]
        if whole is None or not digits or None in digits:
            # 一点五万: the magnitude follows the decimals.
            if decimals and decimals[-1] in _MYRIADS:
                value = _number(text[:-1])
                return None if value is None else value * _MYRIADS[decimals[-1]]
            return None
        fraction = Fraction(int("".join(str(digit) for digit in digits)), 10 ** len(digits))
        return whole + fraction
    return _integer(text)


def _integer(text: str) -> Fraction | None:
    if not text or not _INTEGER.fullmatch(text):
        return None
    for mark in ("兆", "亿", "億", "万", "萬"):
        if mark in text:
            above_text, _, below_text = text.rpartition(mark)
            above = _integer(above_text)
            below = _tail(below_text, _MYRIADS[mark] // 10)
            return None if above is None or below is None else above * _MYRIADS[mark] + below
    return _section(text)


def _tail(text: str, place: int) -> Fraction | None:
    """What follows a magnitude; a lone digit is of the next lower place: 一万二 is 12,000."""
    if not text:
        return Fraction(0)
    if len(text) == 1 and text in _DIGITS:
        return Fraction(_DIGITS[text] * place)
    return _integer(text)


def _section(text: str) -> Fraction | None:
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return Fraction(text)
    if all(char in _DIGITS for char in text):
        return Fraction(int("".join(str(_DIGITS[char]) for char in text)))
    found = re.match(r"(\d+(?:\.\d+)?)(?=[十百千拾佰仟])", text)
    total = Fraction(0)
    digit: Fraction | None = None
    last = 0
    position = 0
    if found is not None:
        digit, position = Fraction(found.group(1)), found.end()
    zero = False
    for char in text[position:]:
        if char in _TENS:
            total += (Fraction(1) if digit is None else digit) * _TENS[char]
            digit, last, zero = None, _TENS[char], False
        elif char in _DIGITS:
            if digit is not None and digit != 0:
                return None
            zero = zero or _DIGITS[char] == 0
            digit = Fraction(_DIGITS[char])
        else:
            return None
    if digit is not None:
        # 两百五 is 250, 两百零五 is 205.
        total += digit * (last // 10 if last > 10 and not zero else 1)
    return total
