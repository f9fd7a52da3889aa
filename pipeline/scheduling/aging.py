"""Which lane waits too long, and when such lanes have a turn."""

from __future__ import annotations

from pipeline.engine.base import TaskKey
from pipeline.scheduling.ranked import Ranked

OTHERS = 7
"""Tokens that begin by the lanes' quotas for each token of overdue lanes. The overdue have an eighth at most: with
4:3:2:1:1:1 each lane then stays within five points of its share, even when all of the last one's backlog is overdue."""


class Aging:
    """Lanes by their oldest task; overdue when that has waited longer than ``max_wait`` ms.

    Overdue lanes take turns, so that one lane's old backlog does not shut out the others. A turn goes before every
    better lane; after one of c tokens, ``OTHERS`` · c tokens go by the quotas before the next. So where no task has
    more than c tokens, an overdue lane has a turn before (``OTHERS`` + 1) · lanes · c tokens have begun by the quotas,
    and the quotas always have seven eighths. Whose task a lane's turn goes to is the tenants' order, not age: one
    tenant's old flood would hold up the others else. With one tenant it is the oldest.
    """

    def __init__(self, lanes: int, max_wait: float) -> None:
        self._max_wait = max_wait
        self._queued = [Ranked[TaskKey]() for _ in range(lanes)]
        self._last = 0
        self._owed = 0

    def put(self, lane: int, key: TaskKey, queued_at: int) -> None:
        """A task waits since ``queued_at`` (ms)."""
        self._queued[lane].put(key, queued_at)

    def discard(self, lane: int, key: TaskKey) -> None:
        """A task waits no longer."""
        self._queued[lane].discard(key)

    def due(self, now: int) -> int | None:
        """The overdue lane whose turn it is now (ms); ``None`` when the quotas have theirs."""
        if self._owed:
            return None
        lanes = len(self._queued)
        for lane in ((self._last - step) % lanes for step in range(1, lanes + 1)):
            oldest = self._queued[lane].first()
            if oldest is not None and now - oldest[0] > self._max_wait:
                return lane
        return None

    def began_overdue(self, lane: int, cost: int) -> None:
        """A task of so many tokens began because its lane was overdue."""
        self._last, self._owed = lane, OTHERS * cost

    def began_by_quota(self, cost: int) -> None:
        """A task of so many tokens began on its lane's turn."""
        self._owed = max(0, self._owed - cost)
