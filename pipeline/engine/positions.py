"""The positions of one sample as they come, and those whose text is kept."""

from __future__ import annotations

from bisect import bisect_left

from pipeline.engine.base import Position


class Positions:
    """What is known of each drawn token, in order, and where in the sample's text it begins."""

    def __init__(self) -> None:
        self._positions: list[Position] = []
        self._starts: list[int] = []

    def add(self, position: Position, start: int) -> None:
        """Take a token in whose text begins at character ``start``, or later if the one before it does."""
        self._positions.append(position)
        self._starts.append(max(start, self._starts[-1]) if self._starts else start)

    def kept(self, end: int | None) -> tuple[Position, ...]:
        """Those that begin before character ``end``, where a stop text has cut the rest off; all without it."""
        return tuple(self._positions[: None if end is None else bisect_left(self._starts, end)])
