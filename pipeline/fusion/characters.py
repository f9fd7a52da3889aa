"""One alphabet for answers: full-width and typographic characters become plain ones.

Not NFKC, which turns 10³ into 103 and 1½ into 11/2: superscripts become powers, fraction signs mixed numbers.
"""

from __future__ import annotations

import re
import unicodedata

_GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "θ": "theta",
    "λ": "lambda",
    "ρ": "rho",
    "σ": "sigma",
    "φ": "phi",
    "ω": "omega",
}
"""Without μ and Ω, which are units as well."""
_SQUARED = dict(
    zip("㎜㎝㎞㎡㎥㎢㎏㎎㎖", ("mm", "cm", "km", "m^2", "m^3", "km^2", "kg", "mg", "ml"), strict=True)
)
_PLAIN = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2005\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\ufe0f"), ""),
    **dict.fromkeys(map(ord, "−–—‒‑﹣"), "-"),
    **dict.fromkeys(map(ord, "×⋅∙·✕"), "*"),
    **dict.fromkeys(map(ord, "“”„«»「」『』《》〈〉"), '"'),
    **dict.fromkeys(map(ord, "‘’′"), "'"),
    ord("÷"): "/",
    ord("∕"): "/",
    ord("⁄"): "/",
    ord("、"): ",",
    ord("。"): ".",
    ord("∶"): ":",
    ord("¥"): "￥",
    **{ord(char): rf"\{name} " for char, name in _GREEK.items()},
    **{ord(char): unit for char, unit in _SQUARED.items()},
    ord("≤"): "<=",
    ord("⩽"): "<=",
    ord("≥"): ">=",
    ord("⩾"): ">=",
    ord("≠"): "!=",
    ord("∪"): r"\cup ",
    ord("∩"): r"\cap ",
    ord("∈"): r"\in ",
    ord("∞"): r"\infty ",
    ord("π"): r"\pi ",
    ord("√"): r"\sqrt ",
    ord("∛"): r"\cbrt ",
    ord("±"): r"\pm ",
    ord("∓"): r"\mp ",
    ord("∅"): r"\emptyset ",
    ord("ℝ"): r"\mathbb{R}",
    ord("∠"): r" \angle ",
    ord("△"): r" \triangle ",
    ord("∥"): r" \parallel ",
    ord("⊥"): r" \perp ",
    ord("º"): "°",
    ord("℃"): "°C",
    ord("℉"): "°F",
    ord("％"): "%",
    ord("﹪"): "%",
}
_SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
_SUBSCRIPT = "₀₁₂₃₄₅₆₇₈₉"
_SUPERSCRIPTS = re.compile(f"[{_SUPERSCRIPT}]+")
_SUBSCRIPTS = re.compile(f"[{_SUBSCRIPT}]+")
_ROOT = re.compile(r"(?:根号下?|√)\s*(\d+(?:\.\d+)?)|根号下?(?=\s*[(（A-Za-z])")
"""As typed, a root is of the whole number behind it: √12 is not \\sqrt12, which LaTeX reads as √1 · 2."""
_VULGAR = re.compile(r"(\d*)[ ]?([¼½¾⅐-⅞])")


def plain_characters(text: str) -> str:
    """The same text in plain characters."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    text = _ROOT.sub(lambda found: rf"\sqrt{{{found[1]}}}" if found[1] else "√", text)
    text = _VULGAR.sub(_mixed, text)
    text = _SUPERSCRIPTS.sub(lambda found: f"^{{{found.group().translate(_RAISED)}}}", text)
    text = _SUBSCRIPTS.sub(lambda found: f"_{{{found.group().translate(_LOWERED)}}}", text)
    return text.translate(_PLAIN)


_RAISED = str.maketrans(_SUPERSCRIPT, "0123456789+-n")
_LOWERED = str.maketrans(_SUBSCRIPT, "0123456789")


def _mixed(found: re.Match[str]) -> str:
    fraction = unicodedata.normalize("NFKC", found.group(2)).replace("⁄", "/")
    return f"{found.group(1)} {fraction}" if found.group(1) else fraction
