"""How quickly a command writes. Pure: time is passed in."""

from __future__ import annotations

_LOTS_A_SECOND = 4


class Pace:
    """At most so many records a second, in small lots.

    In any time T, rate × T records are written and two lots at most. A stand-still is not made up for.

    Args:
        rate: records a second, at least 1.

    Attributes:
        lot: how many are written together; at least one.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._free_at = float("-inf")
        self.lot = max(1, rate // _LOTS_A_SECOND)

    def after(self, records: int, now: float) -> float:
        """Seconds to wait after so many records have been written.

        Args:
            now: seconds of a clock that never goes back.
        """
        worth = records / self._rate
        self._free_at = max(self._free_at, now - worth) + worth
        return max(0.0, self._free_at - now)
