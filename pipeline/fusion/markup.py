"""Takes off what is around an answer: LaTeX delimiters and spacing, emphasis, sentence openings."""

from __future__ import annotations

import re

_SPACING = re.compile(
    r"\\(?:left|right|bigl?|bigr?|Bigl?|Bigr?|displaystyle|textstyle|limits|quad|qquad)(?![A-Za-z])|(?<!\\)\\[!;:> ]|~"
)
_THIN = re.compile(r"(?<!\\)\\,")
_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:,\\!|\{,\}|\\,|,|')\d{3})+)(?![\d]|,\d)")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,]| \d)")
_GROUPED = r"((?:[^{}]|\{[^{}]*\})*?)"
_BRACED_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\!)(?=\d{3})")
_WRAPPER = re.compile(
    r"\\(?:boxed|fbox|ce|text|textbf|textit|textsf|texttt|mathrm|mathbf|mathit|mathsf|mbox|textrm|operatorname|underline|emph|bm|boldsymbol)"
    r"\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"
)
_ORDINAL = re.compile(
    r"(?<=\d)\s*(?:\^\s*)?\{?\s*(?:\\(?:text|mathrm|mbox|textrm|textsuperscript)\s*\{\s*(?:st|nd|rd|th)\s*\}|(?:st|nd|rd|th)\b)\s*\}?"
)
_OPENING = re.compile(
    r"(?:(?:so |thus |therefore |hence )?(?:the |our |my )?(?:final |correct )?(?:answer|result|solution)"
    r"\s*(?:is|:|=)|(?:it is|it's)(?= )|the(?=\s\d+(?:st|nd|rd|th)$)|"
    r"(?:(?:所以|因此|故),?\s*)?(?:最终|最后|正确)?(?:答案|结果)(?:应该是|应为|是|为|:)|答\s*:)\s*[:]?\s*",
    re.I,
)
MAX_REWRITTEN = 500
"""Characters; in a longer text rare notations stay, as looking for their ends takes the square of its length."""
_FONT = re.compile(
    r"\\(?:tiny|small|large|Large|LARGE|huge|Huge|normalsize|bf|it|rm|bfseries)(?![A-Za-z])|\\(?:text)?color\s*\{\w+\}"
)
_REWRITTEN = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"\\(?:sfrac|nicefrac)(?![A-Za-z])", r"\\frac"),
        (rf"\{{{_GROUPED}\\over(?![A-Za-z]){_GROUPED}\}}", r"\\frac{\1}{\2}"),
        (rf"^{_GROUPED}\\over(?![A-Za-z]){_GROUPED}$", r"\\frac{\1}{\2}"),
        (rf"\{{{_GROUPED}\\choose(?![A-Za-z]){_GROUPED}\}}", r"\\binom{\1}{\2}"),
        (r"\\not\s*=", r"\\ne "),
        (r"\\(?:mathbf|mathrm|boldsymbol|bm|vec)\s*\{([A-Za-z])\}(?=\s*=)", r"\1"),
        (r"\\mathcal\s*\{([A-Z])\}", r"\1"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\vert(?![A-Za-z])", "|"),
    )
)
_LETTER_TIMES = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))")
_PARALLEL = re.compile(r"(?<=[A-Z])\s*//\s*(?=[A-Z])")
_COMPARED_ZH = re.compile(
    r"^([A-Za-z])\s*(大于或?等于|不小于|小于或?等于|不大于|大于|小于|不等于|等于)\s*(?=[-+\d\\])"
)
_SIGNS_ZH = {"大于": ">", "小于": "<", "不等于": "!=", "等于": "=", "不小于": ">=", "不大于": "<="}
_PAIRS = (
    ("***", "***"),
    ("**", "**"),
    ("__", "__"),
    ("$$", "$$"),
    ("$", "$"),
    ("`", "`"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("*", "*"),
    ("'", "'"),
)


def unwrapped(text: str) -> str:
    """The answer alone, still in LaTeX where it was in LaTeX."""
    text = (_FONT.sub("", text) if "\\" in text else text).strip()
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
    if text.startswith("=") and not text.startswith("=="):
        text = text[1:].lstrip()
    whole = _WRAPPER.fullmatch(text)
    if whole is not None:
        text = whole.group(1).strip()
    opening = _OPENING.match(text)
    if opening is not None and opening.end() < len(text):
        text = text[opening.end() :]
    return _without_closing_punctuation(text)


def _without_closing_punctuation(text: str) -> str:
    stripped = text.strip()
    text = stripped.rstrip(",;:").rstrip()
    if text.endswith("\\") and len(text) < len(stripped):
        # It was LaTeX spacing.
        text = text[:-1].rstrip()
    while text.endswith((".", "!!")) or (text.endswith("!") and not re.search(r"[\w)}]!$", text)):
        text = text[:-1].rstrip()
    return text


def joined_thousands(text: str) -> str:
    """Thousands marks taken out: 1,000 and 20,\\!160 and 9{,}500, but not the comma of a bracketed list."""
    text = _BRACED_COMMA.sub("", text)
    if ("," in text or "'" in text) and not re.search(r"[(\[{]\s*[-+]?\d{1,3},\d{3}", text):
        text = _THOUSANDS.sub(lambda found: found.group(1) + re.sub(r"\D", "", found.group(2)), text)
    if " " in text:
        text = _SPACED_THOUSANDS.sub(lambda found: found.group().replace(" ", ""), text)
    return text


def cleaned(text: str) -> str:
    """Without LaTeX spacing, ordinals and thousands marks; rare notations in their common form."""
    text = joined_thousands(text)
    if "\\" in text and len(text) <= MAX_REWRITTEN:
        for pattern, written in _REWRITTEN:
            text = pattern.sub(written, text)
    text = _LETTER_TIMES.sub("*", text)
    text = _PARALLEL.sub(r" \\parallel ", text) if "//" in text else text
    text = _COMPARED_ZH.sub(_compared_zh, text)
    text = _SPACING.sub("", text) if "\\" in text or "~" in text else text
    text = _THIN.sub(" ", text).replace("\\%", "%").replace("\\$", "$").replace("\\#", "#")
    return _ORDINAL.sub("", text).strip()


def _compared_zh(found: re.Match[str]) -> str:
    words = found.group(2).replace("或", "")
    sign = f"{_SIGNS_ZH[words[:2]]}=" if words in ("大于等于", "小于等于") else _SIGNS_ZH[words]
    return f"{found.group(1)}{sign}"
