"""Letters that are units because of what they measure: in t=5s the s is no factor."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"([-+]?\d[\d.]*)\s*([A-Za-z])")
_MEASURES = {
    **dict.fromkeys("sdlhrRLHD", "m"),
    **dict.fromkeys("FfGN", "N"),
    **dict.fromkeys("EQW", "J"),
    "t": "sh",
    "T": "sK",
    "m": "g",
    "M": "g",
    "V": "VL",
    "U": "V",
    "I": "A",
    "P": "W",
}
"""What the usual letter of a quantity is counted in."""


def measured(name: str, text: str) -> str | None:
    """The value of ``name = text`` with a space before its unit, or ``None`` where the letter may be a factor."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found.group(2) not in _MEASURES.get(name.partition("_")[0], ""):
        return None
    return f"{found.group(1)} {found.group(2)}"
