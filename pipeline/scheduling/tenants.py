"""Whose task of a lane is next: start-time fair queueing over tenants (Goyal, Vin, Cheng 1996), exact in integers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping

from pipeline.engine.base import TaskKey
from pipeline.scheduling.ranked import Ranked

SAVED = 3 * 1024
"""Tokens that an idle tenant saves up for each unit of its weight: the samples of a request of mode ``standard``."""
_REMEMBERED = 1024
"""Tenants without a task that have had more than they could save; with more of them, all are forgiven."""


class TenantQueues:
    """The waiting tasks of one lane, each tenant's in order.

    A tenant's tag is what its tasks have cost, divided by its weight; the lowest is next. Who comes back
    has a tag at most ``SAVED`` behind the one that is served now, so a whole request of it passes a flood of
    others. While tenants a and b wait, with tasks of at most c tokens,
    ``|begun_a / weight_a - begun_b / weight_b| ≤ SAVED + c / weight_a + c / weight_b``, however long one looks.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        """Weights of tenants, integers of at least 1; who is not named has 1."""
        self._weights = weights
        self._scale = math.lcm(*weights.values())
        self._saved = SAVED * self._scale
        self._tasks: dict[str, OrderedDict[TaskKey, None]] = {}
        self._tags, self._idle = Ranked[str](), Ranked[str]()
        self._now = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, tenant: str, key: TaskKey, *, first: bool = False) -> None:
        """A task waits behind its tenant's others, or before them."""
        queue = self._tasks.get(tenant)
        if queue is None:
            queue = self._tasks[tenant] = OrderedDict()
            self._tags.put(tenant, max(self._tag(tenant), self._now - self._saved))
            self._idle.discard(tenant)
        queue[key] = None
        if first:
            queue.move_to_end(key, last=False)
        self._count += 1

    def first(self) -> TaskKey | None:
        """The next task, which stays; ``None`` when none waits."""
        lowest = self._tags.first()
        if lowest is None:
            return None
        tag, tenant = lowest
        self._now = max(self._now, tag)
        return next(iter(self._tasks[tenant]))

    def remove(self, tenant: str, key: TaskKey) -> None:
        """Take a task out, whoever is next."""
        queue = self._tasks[tenant]
        del queue[key]
        self._count -= 1
        if not queue:
            del self._tasks[tenant]
            self._idle.put(tenant, self._tag(tenant))
            self._tags.discard(tenant)
            self._forget()

    def charge(self, tenant: str, cost: int) -> None:
        """A tenant's task of so many tokens begins."""
        tags = self._tags if tenant in self._tasks else self._idle
        tags.put(tenant, self._tag(tenant) + cost * self._scale // self._weights.get(tenant, 1))

    def _tag(self, tenant: str) -> int:
        """A new tenant has saved what it can."""
        tag = self._tags.rank(tenant)
        if tag is None:
            tag = self._idle.rank(tenant)
        return self._now - self._saved if tag is None else tag

    def _forget(self) -> None:
        """Tenants that would come back as new ones."""
        while (lowest := self._idle.first()) is not None and lowest[0] <= self._now - self._saved:
            self._idle.discard(lowest[1])
        if len(self._idle) > _REMEMBERED:
            self._idle = Ranked[str]()
