"""Takes off what is around an answer: LaTeX delimiters and spacing, emphasis, sentence openings."""

from __future__ import annotations

import re

_SPACING = re.compile(
    r"\\(?:left|right|bigl?|bigr?|Bigl?|Bigr?|displaystyle|textstyle|limits|quad|qquad)(?![A-Za-z])|(?<!\\)\\[!;:> ]|~"
)
_THIN = re.compile(r"(?<!\\)\\,")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:,\\!|\{,\}|\\,|,)\d{3})+)(?![\d]|,\d)")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,]| \d)")
_BRACED_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\!)(?=\d{3})")
_WRAPPER = re.compile(
    r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf|mathit|mbox|textrm|operatorname)\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"
)
_ORDINAL = re.compile(
    r"(?<=\d)\s*(?:\^\s*)?\{?\s*(?:\\(?:text|mathrm|mbox|textrm)\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th)\b)\s*\}?"
)
_OPENING = re.compile(
    r"(?:(?:so |thus |therefore |hence )?(?:the |our |my )?(?:final |correct )?(?:answer|result|solution)"
    r"\s*(?:is|:|=)|(?:it is|it's)(?= )|"
    r"(?:所以|因此|故)?(?:最终|最后|正确)?(?:答案|结果)(?:应该是|应为|是|为|:)|答\s*:)\s*[:]?\s*",
    re.I,
)
_PAIRS = (
    ("**", "**"),
    ("__", "__"),
    ("$$", "$$"),
    ("$", "$"),
    ("`", "`"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
)


def unwrapped(text: str) -> str:
    """The answer alone, still in LaTeX where it was in LaTeX."""
    text = text.strip()
    for _ in range(8):
        before = text
        text = _one_layer(text)
        if text == before:
            break
    return text


def _one_layer(text: str) -> str:
    for opening, closing in _PAIRS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                text = inner.strip()
    whole = _WRAPPER.fullmatch(text)
    if whole is not None:
        text = whole.group(1).strip()
    opening = _OPENING.match(text)
    if opening is not None and opening.end() < len(text):
        text = text[opening.end() :]
    return _without_closing_punctuation(text)


def _without_closing_punctuation(text: str) -> str:
    text = text.strip().rstrip(",;:").rstrip()
    while text.endswith((".", "!!")) or (text.endswith("!") and not re.search(r"[\w)}]!$", text)):
        text = text[:-1].rstrip()
    return text


def joined_thousands(text: str) -> str:
    """Thousands marks taken out: 1,000 and 20,\\!160 and 9{,}500, but not the comma of a bracketed list."""
    text = _BRACED_COMMA.sub("", text)
    if "," in text and not re.search(r"[(\[{]\s*[-+]?\d{1,3},\d{3}", text):
        text = _THOUSANDS.sub(lambda found: found.group(1) + re.sub(r"\D", "", found.group(2)), text)
    if " " in text:
        text = _SPACED_THOUSANDS.sub(lambda found: found.group().replace(" ", ""), text)
    return text


def cleaned(text: str) -> str:
    """Without LaTeX spacing, ordinals and thousands marks."""
    text = joined_thousands(text)
    text = _SPACING.sub("", text) if "\\" in text or "~" in text else text
    text = _THIN.sub(" ", text).replace("\\%", "%").replace("\\$", "$").replace("\\#", "#")
    return _ORDINAL.sub("", text).strip()
