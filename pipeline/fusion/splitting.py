"""Splits a text at separators outside its brackets."""

from __future__ import annotations

import re

SEPARATORS = re.compile(
    r"[,;]|\s(?:or|and)\s|\\text\s*\{\s*(?:or|and|或|和)\s*\}|\\(?:lor|land)(?![A-Za-z])|[或和且]|\n"
)
_OPENING = "([{"
_CLOSING = ")]}"


def split_top(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts between separators that stand in no bracket; half-open intervals count as brackets."""
    starts = {match.start(): match.end() for match in separator.finditer(text)}
    if not starts:
        return [text]
    parts: list[str] = []
    depth = start = position = 0
    while position < len(text):
        if depth == 0 and position in starts:
            parts.append(text[start:position].strip())
            start = position = starts[position]
            continue
        char = text[position]
        depth += char in _OPENING
        depth = max(0, depth - (char in _CLOSING))
        position += 1
    parts.append(text[start:].strip())
    # "1, 2, and 3": two separators side by side are one.
    return [part for place, part in enumerate(parts) if part or not 0 < place < len(parts) - 1]


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Opening bracket, inside and closing bracket when one pair encloses the whole text."""
    body = text.replace("\\{", "{").replace("\\}", "}").replace("\\lbrace", "{").replace("\\rbrace", "}")
    if len(body) < 2 or body[0] not in _OPENING or body[-1] not in _CLOSING:
        return None
    if (body[0] == "{") != (body[-1] == "}"):
        return None
    depth = 0
    for position, char in enumerate(body):
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0 and position < len(body) - 1:
            return None
    return (body[0], body[1:-1], body[-1]) if depth == 0 else None


def without_braces(text: str) -> str:
    """LaTeX groups around the whole text taken off; braces of a set, with a comma inside, stay."""
    for _ in range(4):
        found = enclosed(text) if text.startswith("{") else None
        if found is None or "," in found[1]:
            break
        text = found[1].strip()
    return text
