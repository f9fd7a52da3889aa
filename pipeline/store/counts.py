"""How many runs wait, kept up by what each change of a row makes of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pipeline.events import PRIORITIES
from pipeline.store.rows import Stage
from pipeline.store.tasks import LaneLoad

Slot = tuple[int, Stage, str]
"""Priority, stage and tenant of a run that has not ended."""

_WINDOW = 60
"""Seconds over which the rate of ends is told."""


class Counts:
    """Counts by lane and by tenant; a slot with nothing in it takes no memory.

    Args:
        slots: of every run that has not ended.
    """

    def __init__(self, slots: Iterable[tuple[Slot, int]] = ()) -> None:
        self._lanes, self._tenants = Counter[tuple[int, Stage]](), Counter[str]()
        for slot, count in slots:
            self.add(slot, count)

    def add(self, slot: Slot, count: int) -> None:
        """So many more, or fewer, are in this slot."""
        priority, stage, tenant = slot
        if stage is Stage.OVER:
            return
        self._lanes[priority, stage] += count
        self._tenants[tenant] += count
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def of(self, tenant: str) -> int:
        return self._tenants.get(tenant, 0)

    def lanes(self, oldest: tuple[int | None, ...]) -> tuple[LaneLoad, ...]:
        """Each priority.

        Args:
            oldest: when the oldest that waits was accepted, by priority.
        """
        return tuple(self._lane(priority, oldest[priority]) for priority in range(PRIORITIES))

    def _lane(self, priority: int, oldest: int | None) -> LaneLoad:
        opened = self._lanes[priority, Stage.OPENED]
        return LaneLoad(
            waiting=self._lanes[priority, Stage.WAITING] + opened,
            opened=opened,
            running=self._lanes[priority, Stage.RUNNING],
            oldest_at=oldest,
        )


class Rate:
    """How many runs end in a second, by the broker's times, which come in any order."""

    def __init__(self) -> None:
        self._ends, self._newest = Counter[int](), 0

    def ended(self, at: int) -> None:
        """A run's first final result came at this time (ms)."""
        second = at // 1000
        if second > self._newest:
            self._newest = second
            for old in [each for each in self._ends if each < second - _WINDOW]:
                del self._ends[old]
        if second >= self._newest - _WINDOW:
            self._ends[second] += 1

    def per_second(self, now: int) -> float:
        """Over the last minute before ``now`` (ms)."""
        since = now // 1000 - _WINDOW
        return sum(count for second, count in self._ends.items() if second > since) / _WINDOW
