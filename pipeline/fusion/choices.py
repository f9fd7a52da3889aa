"""Option letters: C, (C), C., 选C, option C, "C) 12", D.42, 选项D正确; and several of them, as in 选ABD."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

_SAID = (
    r"(?:(?i:(?:the )?(?:correct |right |best )?(?:option|choice|answer)\s*(?:is|:)?\s*)|"
    r"(?:故|因此|所以)?(?:本题|此题|答案)?(?:应该?|故|因此|所以)?(?:正确的?)?(?:选(?:择|项)?|答案)?\s*(?:是|为|:)?\s*(?:选项)?\s*)?"
)
_RIGHT = (
    r"\s*(?:选项|项)?(?:(?:是|为)?(?:正确|对)的?)?"
    r"|(?i:\s+is\s+(?:the\s+)?(?:correct|right)(?:\s+(?:answer|option|choice|one))?)"
)
_TEXT = (
    r"(?<=[.:)])\s+(?!(?:and|or)\b|[&,和或与及])\S.*|(?<=[.:])(?=[\d$\\]).+|(?<=\))(?=\d).+"
    r"|(?<=[.:)])(?=[一-鿿])(?![和或与及是]).+|(?<=[.:)])\}"
)
"""What an option says may follow its letter: after a space, or where no abbreviation (D.C.) could go on."""
_LETTER = re.compile(
    rf"{_SAID}(?:\\(?:text|mathrm|mbox|textbf)\s*\{{\s*)?[(\[]?\s*(?:\\(?:text|mathrm|textbf)\s*\{{\s*)?"
    rf"([A-J])\s*\}}?\s*[)\]]?\s*\}}?[.:)]?(?:{_TEXT}|{_RIGHT})?",
    re.S,
)
_SMALL_LETTER = re.compile(r"(?:option |choice |选)?\(?\s*([a-j])\s*\)|(?:option |choice |选)([a-j])", re.I)
_LISTED = re.compile(r"([A-J]),\s*(?=[一-鿿])(?![和或与及])(?!.*(?<![A-Za-z])[A-J](?![A-Za-z])).+", re.S)
"""A、北京, where the mark is that of a list: one letter only, and its text."""
_SEVERAL = re.compile(rf"{_SAID}([A-F]{{2,6}})(?:\s*(?:选项|项)?(?:正确)?)?")


_TOGETHER = re.compile(
    r"(?i:both )?([A-J](?:\s*(?:,|和|与|及|and|&)\s*[A-J])+)"
    r"(?:\s*(?:都|均)?(?:是)?(?:正确|对)的?|(?i:\s+are\s+(?:both |all )?(?:correct|right)))?"
)


def choice_key(text: str) -> str | None:
    """The key of one option letter, or of several in their order, else ``None``.

    A small letter counts only where brackets or words say that it is one.
    """
    if len(text) > 500:
        return None
    # Blanks side by side would be shared out among the patterns' many gaps in all ways.
    text = " ".join(text.split())
    if (several := _SEVERAL.fullmatch(text)) is not None:
        letters = several[1]
        if all(here < there for here, there in pairwise(letters)):
            return _together(letters)
    if (together := _TOGETHER.fullmatch(text)) is not None:
        return _together(re.findall(r"(?<![A-Za-z])[A-J](?![A-Za-z])", together[1]))
    found = _LISTED.fullmatch(text)
    if found is None and "," in text[:4]:
        return None
    found = found or _LETTER.fullmatch(text) or _SMALL_LETTER.fullmatch(text)
    if found is None:
        return None
    letter = next(group for group in found.groups() if group)
    return f"choice:{letter.upper()}"


def _together(letters: Iterable[str]) -> str:
    return f"list[{' ; '.join(f'choice:{letter}' for letter in sorted(letters))}]"
