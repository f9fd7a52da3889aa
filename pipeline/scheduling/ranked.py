"""Keys in order of a rank that can change. Each step takes O(log n), amortised."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SLACK = 16


class Ranked(Generic[Key]):
    """A heap in which a key moves or goes by leaving its old entry behind; the stale ones are bounded."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[int, int, Key]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._arrivals = count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, rank: int) -> None:
        """Add a key, or move it; among equal ranks it is the last."""
        entry = self._entries[key] = (rank, next(self._arrivals), key)
        heappush(self._heap, entry)
        self._tidy()

    def discard(self, key: Key) -> None:
        """Take a key out; nothing happens if it is not there."""
        if self._entries.pop(key, None):
            self._tidy()

    def rank(self, key: Key) -> int | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def first(self) -> tuple[int, Key] | None:
        """The lowest rank and its key, which stays."""
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[0], entry[2]
            heappop(self._heap)
        return None

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)
