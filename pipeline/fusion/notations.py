r"""Notations that the grammar of algebra does not have, in those that it has: sinxcosx, C(5,2), {}_5C_2, 5 choose 2.

``C(n,k)`` with whole numbers 0 <= k <= n is the binomial; any other letter before a bracket, ``P(5,2)`` too, and a
``C`` that could choose nothing, ``C(2,5)``, names a point. So does "point C(5,2)", and C among other named points.
"""

from __future__ import annotations

import re

_FUNCTION = r"(?:(?:arc)?(?:sin|cos|tan)|cot|sec|csc|ln|log|lg|exp)"
GLUED = re.compile(rf"(?<![A-Za-z\\])(?!cosy\b)([a-z]?)((?:{_FUNCTION}[nxyz]{{1,2}})+)(?![A-Za-z])")
"""Functions in a run of letters: sinx, xlnx, sinxcosx."""
_APPLIED = re.compile(rf"({_FUNCTION})([nxyz]{{1,2}})")
_CALLED = re.compile(
    r"(?<![A-Za-z\\_'}])(?:C|nCr|binom|comb|\\mathrm\s*\{C\})\s*\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)"
)
_CALLED_BY_NAME = re.compile(r"(?<![A-Za-z\\_'}])C\s*\(\s*([nmN])\s*,\s*(\d{1,2}|[kmr])\s*\)")
_AROUND = re.compile(
    r"(?:(?:\{\}\s*|(?<![\w)}]))[_^]\s*\{?(\d{1,3})\}?|(?<![\w.)}])(\d{1,3}))\s*([CP])\s*_?\s*\{?(\d{1,3})\}?(?![\w^])"
)
_CHOOSE = re.compile(r"(?<![\w.])(\d{1,4})\s+choose\s+(\d{1,4})(?![\w.])")


def spelled_out(text: str) -> str:
    """The text with these notations rewritten; the text itself where it has none."""
    if GLUED.search(text) is not None:
        text = GLUED.sub(lambda found: found[1] + _APPLIED.sub(r"\\\1 \2", found[2]), text)
    if "C" in text or "P" in text or "binom(" in text or "comb(" in text:
        text = _AROUND.sub(_around, _CALLED.sub(_called, text))
        text = _CALLED_BY_NAME.sub(r"\\binom{\1}{\2}", text)
    return _CHOOSE.sub(r"\\binom{\1}{\2}", text) if " choose " in text else text


def _called(found: re.Match[str]) -> str:
    whole, part = int(found[1]), int(found[2])
    return rf"\binom{{{whole}}}{{{part}}}" if part <= whole else found[0]


def _around(found: re.Match[str]) -> str:
    whole, part = int(found[1] or found[2]), int(found[4])
    if part > whole:
        return found[0]
    ways = rf"\binom{{{whole}}}{{{part}}}"
    return ways if found[3] == "C" else rf"({ways}*{part}!)"
