"""How long a transaction waits for more records: under load it costs more than the records in it."""

from __future__ import annotations

from collections import deque

_EACH, _LONGEST = 0.000_25, 0.03
"""Seconds that a record lets the next transaction wait, and the most."""
_LATELY = 0.1


def worth_waiting(records: int) -> float:
    """Seconds to gather for the next transaction, when so many records came lately; a lone one waits for nothing."""
    return min(_LONGEST, _EACH * records)


class Traffic:
    """How many records came in the last tenth of a second."""

    def __init__(self) -> None:
        self._lots: deque[tuple[float, int]] = deque()
        self._count = 0

    def note(self, records: int, now: float) -> None:
        """So many have come, ``now`` in seconds of a clock that never goes back."""
        self._lots.append((now, records))
        self._count += records

    def lately(self, now: float) -> int:
        while self._lots and self._lots[0][0] < now - _LATELY:
            self._count -= self._lots.popleft()[1]
        return self._count
