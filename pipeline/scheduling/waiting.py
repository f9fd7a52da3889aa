"""Which task begins next: of the lanes by weight, and suspects of a crash by themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass

from pipeline.engine.base import TaskKey
from pipeline.events import SampleTask, TaskGroup
from pipeline.kafka.crash_journal import FATAL_DEATHS, Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.lanes import WeightedRoundRobin


@dataclass(frozen=True, slots=True)
class Assigned:
    """A sample task, and what its end moves in Kafka.

    Attributes:
        queued_at: ms when its batch was written.
        lane: where it waits.
        work: what is blamed if the process dies while it runs: its request's part of the batch.
        deaths: how many processes have died with that in hand.
    """

    group: TaskGroup
    task: SampleTask
    finished: Finished
    queued_at: int
    lane: int
    work: Work
    deaths: int = 0

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.group.request_id, self.group.run, self.task.sample_index)

    @property
    def suspect(self) -> bool:
        return self.deaths > 0

    @property
    def poison(self) -> bool:
        """It is not to be run again."""
        return self.deaths >= FATAL_DEATHS


class Waiting:
    """Tasks that have not begun."""

    def __init__(self, quotas: Sequence[int]) -> None:
        self._turns = WeightedRoundRobin(quotas)
        self._lanes: dict[int, deque[TaskKey]] = {lane: deque() for lane in range(len(quotas))}
        self._suspects: dict[Work, deque[TaskKey]] = {}

    def count(self, lane: int) -> int:
        """Tasks of a lane, less the suspects."""
        return len(self._lanes[lane])

    def put(self, assigned: Assigned) -> None:
        self._queue(assigned).append(assigned.key)

    def put_back(self, assigned: Assigned) -> None:
        """It had begun already, so it is the next one."""
        self._queue(assigned).appendleft(assigned.key)

    def next(self, alone: Work | None, *, idle: bool) -> TaskKey | None:
        """Take the next task out; ``None`` when none may begin now.

        Suspects go first, but only when nothing runs, and then what is blamed together runs alone.

        Args:
            alone: the suspect that runs now.
            idle: nothing runs now.
        """
        if alone is None and self._suspects:
            if not idle:
                return None
            alone = next(iter(self._suspects))
        if alone is not None:
            return self._next_of(alone)
        lane = self._turns.next([lane for lane, keys in self._lanes.items() if keys])
        return None if lane is None else self._lanes[lane].popleft()

    def keep(self, keys: Container[TaskKey]) -> None:
        """Forget every other task."""
        for queue in (*self._lanes.values(), *self._suspects.values()):
            kept = [key for key in queue if key in keys]
            queue.clear()
            queue.extend(kept)
        self._suspects = {work: queue for work, queue in self._suspects.items() if queue}

    def _queue(self, assigned: Assigned) -> deque[TaskKey]:
        if assigned.suspect:
            return self._suspects.setdefault(assigned.work, deque())
        return self._lanes[assigned.lane]

    def _next_of(self, suspect: Work) -> TaskKey | None:
        queue = self._suspects.get(suspect)
        if not queue:
            return None
        key = queue.popleft()
        if not queue:
            del self._suspects[suspect]
        return key
