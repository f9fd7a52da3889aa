"""Programs in samples: where they are."""

from __future__ import annotations

import re

_FENCE = re.compile(r"(```|~~~)[ \t]*([\w+#.-]*)[^\n`~]*\n(.*?)(\1|\Z)", re.S)


def closed_fences(text: str) -> list[str]:
    """The contents of the fenced blocks that are closed, in order."""
    return [match.group(3) for match in _FENCE.finditer(text) if match.group(4)]


def last_fence(text: str) -> str | None:
    """The content of the last fenced block that is closed."""
    closed = closed_fences(text)
    return closed[-1] if closed else None


def extract_code(text: str, finish_reason: str = "stop") -> str | None:
    """The program of a sample: its last fenced block, or the whole text when it has no fence.

    ``None`` when the block was cut before its closing fence.
    """
    block = last_fence(text)
    if block is not None:
        return block.strip("\n") or None
    cut = str(finish_reason) in ("length", "timeout")
    if cut or "```" in text or "~~~" in text:
        return None
    return text.strip() or None
