"""Option letters: C, (C), C., 选C, option C, "C) 12"."""

from __future__ import annotations

import re

_LETTER = re.compile(
    r"(?:(?i:(?:the )?(?:correct |right |best )?(?:option|choice|answer)\s*(?:is|:)?\s*)|"
    r"(?:本题|此题|答案)?(?:应该?|故|因此|所以)?(?:正确)?(?:选(?:择|项)?|答案)\s*(?:是|为|:)?\s*)?"
    r"(?:\\(?:text|mathrm|mbox|textbf)\s*\{\s*)?[(\[]?\s*(?:\\(?:text|mathrm|textbf)\s*\{\s*)?([A-J])\s*\}?\s*[)\]]?\s*\}?[.:)]?"
    r"(?:(?<=[.:)])\s+(?!(?:and|or)\b|[&,和或与及])\S.*|\s*(?:选项|项))?",
    re.S,
)
_SMALL_LETTER = re.compile(r"(?:option |choice |选)?\(?\s*([a-j])\s*\)|(?:option |choice |选)([a-j])", re.I)


def choice_key(text: str) -> str | None:
    """The key of one option letter, else ``None``; a small letter only where brackets or words say that it is one."""
    if len(text) > 500 or "," in text[:4]:
        return None
    found = _LETTER.fullmatch(text) or _SMALL_LETTER.fullmatch(text)
    if found is None:
        return None
    letter = next(group for group in found.groups() if group)
    return f"choice:{letter.upper()}"
