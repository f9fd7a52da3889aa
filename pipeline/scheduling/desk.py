"""The worker's desk: tasks between their records in Kafka and the engine. Pure: no Kafka, time is passed in.

A task is waiting, then running, then its sample is unpublished until a transaction has committed it.
When partitions are dropped their tasks are forgotten, but what runs goes on: if the same records come
back, a sample in the making is not begun again.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.engine.base import Completion, TaskKey
from pipeline.events import FinishReason
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished, Place
from pipeline.scheduling.waiting import Assigned, Waiting

_REMEMBERED_DECISIONS = 50_000
_CLOCK_SLACK_MS = 60_000
"""Batches are stamped by the batcher's clock, decisions by the broker's."""


class TaskDesk:
    """Every task that this worker holds."""

    def __init__(
        self,
        quotas: Sequence[int],
        *,
        max_lane_wait: float = math.inf,
        tenant_weights: Mapping[str, int] | None = None,
    ) -> None:
        """``max_lane_wait``: seconds after which a task makes its lane overdue. Who is not named weighs 1."""
        self._tasks: dict[TaskKey, Assigned] = {}
        self._waiting = Waiting(quotas, max_wait=1000 * max_lane_wait, weights=tenant_weights or {})
        self._running: dict[TaskKey, Assigned] = {}
        self._ended: dict[TaskKey, Completion] = {}
        self._decided: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._surplus: list[Finished] = []
        self._failed = Counter[TaskKey]()

    @property
    def busy(self) -> bool:
        return bool(self._running or self._ended)

    @property
    def drawing(self) -> int:
        """Tasks that the engine works on."""
        return len(self._in_engine())

    def waiting(self, lane: int) -> int:
        """Tasks of a lane that have not begun."""
        return self._waiting.count(lane)

    def in_hand(self) -> set[Work]:
        """What is blamed if the process dies now: all that the engine works on."""
        return {assigned.work for assigned in self._in_engine()}

    def take(self, assigned: Assigned) -> None:
        """Take a task in; the same task in two records is drawn once."""
        key = assigned.key
        if assigned.queued_at > self._decided.get(key[:2], assigned.queued_at):
            del self._decided[key[:2]]  # whoever asks an id anew, long after its end, waits for it
        if key in self._tasks:
            self._surplus.append(assigned.finished)
            return
        self._tasks[key] = assigned
        if key not in self._running:
            self._waiting.put(assigned)

    def refuse(self, assigned: Assigned, completion: Completion) -> None:
        """Take a task in that ends without having run."""
        key = assigned.key
        if key in self._tasks:
            self._surplus.append(assigned.finished)
            return
        self._tasks[key] = self._running[key] = assigned
        self._ended[key] = completion

    def begin(self, free: int, now: int) -> Iterator[Assigned]:
        """The next tasks to run, at most ``free``, in the order of ``waiting``; suspects of a crash by themselves.

        What nobody waits for any more, because its request is decided or past its deadline, is finished unrun.
        """
        running = self._in_engine()
        alone = next((assigned.work for assigned in running if assigned.suspect), None)
        idle = not running
        while free > 0 and (turn := self._waiting.next(alone, idle=idle, now=now)) is not None:
            key, why = turn
            assigned = self._tasks[key]
            if key[:2] in self._decided or assigned.group.deadline_at <= now:
                del self._tasks[key]
                self._failed.pop(key, None)
                self._surplus.append(assigned.finished)
                continue
            self._waiting.charge(assigned, why)
            self._running[key] = assigned
            alone, idle = assigned.work if assigned.suspect else None, False
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
                self._waiting.put_back(self._tasks[key])
            return
        self._ended[key] = completion

    def again(self, key: TaskKey, attempts: int) -> bool:
        """Draw a running task again, whose engine failed; ``False`` after so many attempts, or nobody waits for it."""
        self._failed[key] += 1
        if key not in self._tasks or key not in self._running or self._failed[key] >= attempts:
            del self._failed[key]
            return False
        self._waiting.put_back(self._tasks[key])
        del self._running[key]
        return True

    def decide(self, request: tuple[str, int], at: int) -> list[TaskKey]:
        """Nobody waits for this request any more, since ``at`` (ms): names its running tasks, which can stop."""
        self._decided[request] = at + _CLOCK_SLACK_MS
        self._decided.move_to_end(request)
        if len(self._decided) > _REMEMBERED_DECISIONS:
            self._decided.popitem(last=False)
        return [key for key in self._running if key[:2] == request]

    def publishable(self) -> tuple[list[tuple[Assigned, Completion]], list[Finished]]:
        """Samples to publish, and every task that is finished with or without one."""
        ready = [(self._tasks[key], done) for key, done in self._ended.items() if key in self._tasks]
        finished = self._surplus + [assigned.finished for assigned, _ in ready]
        return [pair for pair in ready if pair[0].key[:2] not in self._decided], finished

    def published(self, finished: Collection[Finished]) -> list[Assigned]:
        """Forget what a transaction has committed; returns the tasks that ran."""
        through = set(finished)
        self._surplus = [item for item in self._surplus if item not in through]
        ran = [self._tasks[key] for key in self._ended if key in self._tasks]
        ran = [assigned for assigned in ran if assigned.finished in through]
        for assigned in ran:
            del self._ended[assigned.key], self._running[assigned.key], self._tasks[assigned.key]
            self._failed.pop(assigned.key, None)
        return ran

    def cleared(self, ran: Collection[Assigned]) -> set[Work]:
        """The suspects of which these were the last tasks."""
        suspects = {assigned.work for assigned in ran if assigned.suspect}
        return suspects and suspects - {assigned.work for assigned in self._tasks.values()}

    def through(self, key: TaskKey) -> None:
        """A task was published after all, by a transaction whose outcome was not known."""
        if key not in self._tasks:
            self._running.pop(key, None)
            self._ended.pop(key, None)

    def drop(self, places: Collection[Place]) -> None:
        """Forget the records of these partitions; running tasks go on in case the records come back."""
        self._tasks = {key: a for key, a in self._tasks.items() if a.finished.place not in places}
        self._waiting.keep(self._tasks)
        self._failed = Counter({key: count for key, count in self._failed.items() if key in self._tasks})
        self._surplus = [item for item in self._surplus if item.place not in places]

    def keep(self, owned: Collection[Place]) -> list[TaskKey]:
        """After an assignment: give up what is now somebody else's; names what can stop running."""
        strangers = [key for key, assigned in self._running.items() if assigned.finished.place not in owned]
        for key in strangers:
            del self._running[key]
            self._ended.pop(key, None)
        return strangers

    def _in_engine(self) -> list[Assigned]:
        return [assigned for key, assigned in self._running.items() if key not in self._ended]
