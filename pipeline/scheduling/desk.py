"""The worker's desk: tasks between their records in Kafka and the engine. Pure: no Kafka, time is passed in.

A task is waiting, then running, then its sample is unpublished until a transaction has committed it.
When partitions are dropped their tasks are forgotten, but what runs goes on: if the same records come
back, a sample in the making is not begun again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pipeline.engine.base import Completion, TaskKey
from pipeline.events import FinishReason, SampleTask, TaskGroup
from pipeline.kafka.records import Finished, Place
from pipeline.scheduling.lanes import WeightedRoundRobin

_REMEMBERED_DECISIONS = 50_000


@dataclass(frozen=True, slots=True)
class Assigned:
    """A sample task, and what its end moves in Kafka.

    Attributes:
        queued_at: ms when its batch was written.
        lane: where it waits.
    """

    group: TaskGroup
    task: SampleTask
    finished: Finished
    queued_at: int
    lane: int

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.group.request_id, self.group.run, self.task.sample_index)


class TaskDesk:
    """Every task that this worker holds."""

    def __init__(self, quotas: Sequence[int]) -> None:
        self._turns = WeightedRoundRobin(quotas)
        self._tasks: dict[TaskKey, Assigned] = {}
        self._waiting: dict[int, deque[TaskKey]] = {lane: deque() for lane in range(len(quotas))}
        self._running: dict[TaskKey, Assigned] = {}
        self._ended: dict[TaskKey, Completion] = {}
        self._decided: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._surplus: list[Finished] = []

    @property
    def busy(self) -> bool:
        return bool(self._running or self._ended)

    def waiting(self, lane: int) -> int:
        """Tasks of a lane that have not begun."""
        return len(self._waiting[lane])

    def take(self, assigned: Assigned) -> None:
        """Take a task in; the same task in two records is drawn once."""
        key = assigned.key
        if key in self._tasks:
            self._surplus.append(assigned.finished)
            return
        self._tasks[key] = assigned
        if key not in self._running:
            self._waiting[assigned.lane].append(key)

    def begin(self, free: int, now: int) -> Iterator[Assigned]:
        """The next tasks to run, at most ``free``, by the lanes' weights.

        What nobody waits for any more, because its request is decided or overdue, is finished unrun.
        """
        while free > 0:
            lane = self._turns.next([lane for lane, waiting in self._waiting.items() if waiting])
            if lane is None:
                return
            key = self._waiting[lane].popleft()
            assigned = self._tasks[key]
            if key[:2] in self._decided or assigned.group.deadline_at <= now:
                del self._tasks[key]
                self._surplus.append(assigned.finished)
                continue
            self._running[key] = assigned
            free -= 1
            yield assigned

    def end(self, completion: Completion) -> None:
        """A running task has ended.

        One that was cancelled, and whose record came back meanwhile, is drawn again.
        """
        key = completion.key
        if key not in self._running:
            return
        if completion.finish_reason is FinishReason.CANCELLED and key[:2] not in self._decided:
            del self._running[key]
            if key in self._tasks:
                self._waiting[self._tasks[key].lane].appendleft(key)
            return
        self._ended[key] = completion

    def decide(self, request: tuple[str, int]) -> list[TaskKey]:
        """A request's window is closed: names its running tasks, which can stop."""
        self._decided[request] = None
        if len(self._decided) > _REMEMBERED_DECISIONS:
            self._decided.popitem(last=False)
        return [key for key in self._running if key[:2] == request]

    def publishable(self) -> tuple[list[tuple[Assigned, Completion]], list[Finished]]:
        """Samples to publish, and every task that is finished with or without one."""
        ready = [(self._tasks[key], done) for key, done in self._ended.items() if key in self._tasks]
        finished = self._surplus + [assigned.finished for assigned, _ in ready]
        return [pair for pair in ready if pair[0].key[:2] not in self._decided], finished

    def published(self, finished: Collection[Finished]) -> list[TaskKey]:
        """Forget what a transaction has committed; returns the tasks that ran."""
        through = set(finished)
        self._surplus = [item for item in self._surplus if item not in through]
        keys = [key for key in self._ended if key in self._tasks and self._tasks[key].finished in through]
        for key in keys:
            del self._ended[key], self._running[key], self._tasks[key]
        return keys

    def through(self, key: TaskKey) -> None:
        """A task was published after all, by a transaction whose outcome was not known."""
        if key not in self._tasks:
            self._running.pop(key, None)
            self._ended.pop(key, None)

    def drop(self, places: Collection[Place]) -> None:
        """Forget the records of these partitions; running tasks go on in case the records come back."""
        self._tasks = {key: a for key, a in self._tasks.items() if a.finished.place not in places}
        for waiting in self._waiting.values():
            kept = [key for key in waiting if key in self._tasks]
            waiting.clear()
            waiting.extend(kept)
        self._surplus = [item for item in self._surplus if item.place not in places]

    def keep(self, owned: Collection[Place]) -> list[TaskKey]:
        """After an assignment: give up what is now somebody else's; names what can stop running."""
        strangers = [key for key, assigned in self._running.items() if assigned.finished.place not in owned]
        for key in strangers:
            del self._running[key]
            self._ended.pop(key, None)
        return strangers
