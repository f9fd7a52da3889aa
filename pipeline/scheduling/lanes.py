"""Which lane is served next: weighted round robin, work-conserving."""

from __future__ import annotations

from collections.abc import Collection, Sequence


class WeightedRoundRobin:
    """Hands out turns to lanes in proportion to their quotas.

    A lane without work passes its turn on, so that nothing idles while any lane waits. Every lane has a
    quota of at least one, so every lane is served within one round.
    """

    def __init__(self, quotas: Sequence[int]) -> None:
        self._quotas = tuple(quotas)
        self._credit = list(quotas)

    def next(self, ready: Collection[int]) -> int | None:
        """The lane to serve one task of, out of those that have work; ``None`` when none has."""
        if not ready:
            return None
        for lane in sorted(ready):
            if self._credit[lane] > 0:
                self._credit[lane] -= 1
                return lane
        self._credit = list(self._quotas)
        lane = min(ready)
        self._credit[lane] -= 1
        return lane
