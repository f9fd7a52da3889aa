"""Which task begins next, of the lanes by quota, of a lane's tenants by weight; overdue lanes, and suspects of a crash.

The order in which a free row is given:

1. suspects, only when nothing else runs
2. an overdue lane, unless such have had their eighth   (``aging``)
   or the best lane that has credit                     (``lanes``)
3. in it, the tenant that has had the least             (``tenants``)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from pipeline.engine.base import TaskKey
from pipeline.events import SampleTask, TaskGroup
from pipeline.kafka.crash_journal import FATAL_DEATHS, Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.aging import Aging
from pipeline.scheduling.lanes import DeficitRoundRobin
from pipeline.scheduling.tenants import TenantQueues


@dataclass(frozen=True, slots=True)
class Assigned:
    """A sample task, and what its end moves in Kafka.

    Attributes:
        queued_at: ms when its batch was written.
        lane: where it waits.
        work: what is blamed if the process dies while it runs: its request's part of the batch.
        deaths: how many processes have died with that in hand.
        batch_trace: that of the batch's writing.
    """

    group: TaskGroup
    task: SampleTask
    finished: Finished
    queued_at: int
    lane: int
    work: Work
    deaths: int = 0
    batch_trace: str = ""

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.group.request_id, self.group.run, self.task.sample_index)

    @property
    def tenant(self) -> str:
        return self.group.tenant

    @property
    def cost(self) -> int:
        """The most tokens that it may draw."""
        return max(1, self.group.max_new_tokens)

    @property
    def suspect(self) -> bool:
        return self.deaths > 0

    @property
    def poison(self) -> bool:
        """It is not to be run again."""
        return self.deaths >= FATAL_DEATHS


class Why(Enum):
    """What a task has its turn by."""

    QUOTA = auto()
    OVERDUE = auto()
    SUSPECT = auto()


class Turn(NamedTuple):
    """A task that may begin now."""

    key: TaskKey
    why: Why


class Waiting:
    """Tasks that have not begun. A decision takes O(log n) of them."""

    def __init__(self, quotas: Sequence[int], *, max_wait: float, weights: Mapping[str, int]) -> None:
        """``max_wait``: ms after which a task makes its lane overdue. ``weights``: of tenants, 1 if not named."""
        self._turns = DeficitRoundRobin(quotas)
        self._aging = Aging(len(quotas), max_wait)
        self._lanes = [TenantQueues(weights) for _ in quotas]
        self._tasks: dict[TaskKey, Assigned] = {}
        self._suspects: dict[Work, deque[TaskKey]] = {}

    def count(self, lane: int) -> int:
        """Tasks of a lane, less the suspects."""
        return len(self._lanes[lane])

    def put(self, assigned: Assigned) -> None:
        self._put(assigned, first=False)

    def put_back(self, assigned: Assigned) -> None:
        """It had begun already, so it is the next one of its tenant."""
        self._put(assigned, first=True)

    def next(self, alone: Work | None, *, idle: bool, now: int) -> Turn | None:
        """Take the next task out; ``None`` when none may begin now. ``charge`` it when it does begin.

        Suspects go first, but only when nothing runs, and then what is blamed together runs alone.

        Args:
            alone: the suspect that runs now.
            idle: nothing runs now.
            now: ms.
        """
        if alone is None and self._suspects:
            if not idle:
                return None
            alone = next(iter(self._suspects))
        if alone is not None:
            return self._next_of(alone)
        lane, why = self._aging.due(now), Why.OVERDUE
        if lane is None:
            ready = [lane for lane, queue in enumerate(self._lanes) if len(queue)]
            lane, why = self._turns.next(ready), Why.QUOTA
        if lane is None or (key := self._lanes[lane].first()) is None:
            return None
        self._remove(key)
        return Turn(key, why)

    def charge(self, assigned: Assigned, why: Why) -> None:
        """A task that ``next`` gave does begin: its lane and its tenant have had that much."""
        lane, cost = assigned.lane, assigned.cost
        if why is Why.SUSPECT:
            return
        self._lanes[lane].charge(assigned.tenant, cost)
        if why is Why.OVERDUE:
            self._turns.charge_out_of_turn(lane, cost)
            self._aging.began_overdue(lane, cost)
        else:
            self._turns.charge(lane, cost)
            self._aging.began_by_quota(cost)

    def keep(self, keys: Container[TaskKey]) -> None:
        """Forget every other task."""
        for key in [key for key in self._tasks if key not in keys]:
            self._remove(key)
        for queue in self._suspects.values():
            kept = [key for key in queue if key in keys]
            queue.clear()
            queue.extend(kept)
        self._suspects = {work: queue for work, queue in self._suspects.items() if queue}

    def _put(self, assigned: Assigned, *, first: bool) -> None:
        key = assigned.key
        if assigned.suspect:
            queue = self._suspects.setdefault(assigned.work, deque())
            (queue.appendleft if first else queue.append)(key)
            return
        self._tasks[key] = assigned
        self._lanes[assigned.lane].put(assigned.tenant, key, first=first)
        self._aging.put(assigned.lane, key, assigned.queued_at)

    def _remove(self, key: TaskKey) -> None:
        assigned = self._tasks.pop(key)
        self._lanes[assigned.lane].remove(assigned.tenant, key)
        self._aging.discard(assigned.lane, key)

    def _next_of(self, suspect: Work) -> Turn | None:
        queue = self._suspects.get(suspect)
        if not queue:
            return None
        key = queue.popleft()
        if not queue:
            del self._suspects[suspect]
        return Turn(key, Why.SUSPECT)
