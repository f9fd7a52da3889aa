"""From an engine's positions to the compact form of a sample's record."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.engine.base import Position
from pipeline.events import Logprobs, Token

_LEAST = -9999.0
"""As OpenAI's API writes what is all but impossible; minus infinity has no JSON."""
_NONE = -1


def packed(positions: Sequence[Position], top: int, *, whole: bool) -> Logprobs | None:
    """Each token once and, for each position, places in this list; ``None`` without positions.

    Args:
        top: likeliest tokens a position; where an engine gave fewer, the rest is filled with ``_NONE``.
        whole: the sample's text is kept whole; if not, nobody could say which tokens it still has.
    """
    if not positions:
        return None
    if not whole:
        return Logprobs(top, dropped=True)
    known: dict[tuple[str, int | None], int] = {}
    places: list[int] = []
    values: list[float] = []
    for position in positions:
        entries = (position.drawn, *position.top[:top])
        for entry in entries:
            places.append(known.setdefault((entry.text, entry.token), len(known)))
            values.append(max(_LEAST, min(0.0, entry.logprob)))
        missing = 1 + top - len(entries)
        places += [_NONE] * missing
        values += [0.0] * missing
    return Logprobs(top, tuple(Token(*one) for one in known), tuple(places), tuple(values))
