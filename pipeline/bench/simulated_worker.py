"""A worker's desk with a simulated engine, clock and Kafka: what is measured is the order in which tasks begin.

Each row draws a token in ``_STEP`` ms. A lane's partition is read in order, and held as the worker holds it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.engine.base import Completion, TaskKey
from pipeline.events import FinishReason, Kind, Message, Mode, SampleTask, TaskGroup
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.desk import TaskDesk
from pipeline.scheduling.waiting import Assigned
from pipeline.settings import BatchingSettings, WorkerSettings
from pipeline.topics import LANES

_STEP = 20
_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one tenant in one lane.

    Attributes:
        tokens: the most that a sample may draw; it draws a quarter of that at least.
        backlog: requests that wait when the worker starts.
        queued_at: ms when those were queued.
        every: seconds between further requests in the mean, exponentially distributed, the first at once;
            ``None``: none come.
        in_hand: they are read at once, whatever stands before them in the partition.
    """

    lane: int
    tenant: str = "default"
    samples: int = 3
    tokens: int = 128
    backlog: int = 0
    queued_at: int = 0
    every: float | None = None
    in_hand: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample, its times in ms, and how many tokens it drew before the simulation ended."""

    task: Assigned
    began_at: int
    ends_at: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a simulation of so many ms: samples in the order in which they began, and those that did not."""

    drawn: list[Drawn]
    left: list[Assigned]
    ms: int

    def waits(self, load: Load) -> list[float]:
        """Seconds of a load's samples from the queue to the engine, or to the end."""
        began = [(each.task, each.began_at) for each in self.drawn] + [(task, self.ms) for task in self.left]
        return [(at - task.queued_at) / 1000 for task, at in began if _of(load, task)]

    def latencies(self, load: Load) -> list[float]:
        """Seconds until all samples of a load's requests are drawn, or until the end."""
        ended = [(each.task, min(each.ends_at, self.ms)) for each in self.drawn]
        last: dict[str, float] = {}
        for task, at in ended + [(task, self.ms) for task in self.left]:
            if _of(load, task):
                name = task.group.request_id
                last[name] = max(last.get(name, 0.0), (at - task.queued_at) / 1000)
        return list(last.values())


def seconds_a_request(load: Load, rows: int) -> float:
    """What one request takes of the whole engine, in the mean."""
    return load.samples * load.tokens * 5 / 8 * _STEP / 1000 / rows


def task_of(load: Load, number: int, sample: int, queued_at: int) -> Assigned:
    """One sample of a load's request of that number."""
    group = TaskGroup(
        request_id=f"{load.lane}-{load.tenant}-{number}",
        run=0,
        tenant=load.tenant,
        priority=load.lane,
        mode=Mode.STANDARD,
        kind=Kind.ANSWER,
        path="direct",
        messages=(Message("user", "?"),),
        temperature=0.5,
        top_p=1.0,
        max_new_tokens=load.tokens,
        created_at=queued_at,
        deadline_at=_NEVER,
        tasks=(),
    )
    place = (LANES[load.lane], 0)
    work = Work(*place, number, 0, 0)
    return Assigned(group, SampleTask(sample), Finished(place, number, sample), queued_at, load.lane, work)


def simulate(
    loads: Sequence[Load], worker: WorkerSettings, *, rows: int, seconds: float, seed: int
) -> Played:
    """Play a worker of so many rows through."""
    return _Simulation(worker, rows, seed).run(loads, round(1000 * seconds))


class _Simulation:
    def __init__(self, worker: WorkerSettings, rows: int, seed: int) -> None:
        self._desk = TaskDesk(
            worker.quotas, max_lane_wait=worker.max_lane_wait, tenant_weights=worker.tenant_weights
        )
        self._most = worker.prefetch * BatchingSettings().max_batch  # pyright: ignore[reportCallIssue]
        self._free, self._chance = rows, random.Random(seed)
        self._partitions: list[deque[Assigned]] = [deque() for _ in LANES]
        self._ends: list[tuple[int, TaskKey]] = []
        self._drawn: list[Drawn] = []
        self._left: dict[TaskKey, Assigned] = {}

    def run(self, loads: Sequence[Load], until: int) -> Played:
        for load in loads:
            for number in range(load.backlog):
                self._arrive(load, -1 - number, load.queued_at)
        arriving = heapq.merge(
            *(self._arrivals(place, load, until) for place, load in enumerate(loads)),
            key=lambda each: each[0],
        )
        following, now = next(arriving, None), 0
        while now < until:
            while following is not None and following[0] <= now:
                at, number, load = following
                self._arrive(load, number, at)
                following = next(arriving, None)
            self._end(now)
            self._begin(now, until)
            coming = [each[0] for each in (following, *self._ends[:1]) if each is not None]
            now = min([until, *coming])
        return Played(self._drawn, list(self._left.values()), until)

    def _arrivals(self, place: int, load: Load, until: int) -> Iterable[tuple[int, int, Load]]:
        if load.every is None:
            return
        chance, at = random.Random(f"{place} {self._chance.random()}"), 0.0
        for number in itertools.count():
            if at >= until:
                return
            yield round(at), number, load
            at += 1000 * chance.expovariate(1 / load.every)

    def _arrive(self, load: Load, number: int, at: int) -> None:
        for sample in range(load.samples):
            task = task_of(load, number, sample, at)
            self._left[task.key] = task
            if load.in_hand:
                self._desk.take(task)
            else:
                self._partitions[load.lane].append(task)

    def _end(self, now: int) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            self._desk.end(Completion(key, "", FinishReason.STOP, 0, 0, None, 0, 0.0, None, 0.0))
            self._free += 1
        self._desk.published(self._desk.publishable()[1])

    def _begin(self, now: int, until: int) -> None:
        while True:
            for lane, partition in enumerate(self._partitions):
                while partition and self._desk.waiting(lane) < self._most:
                    self._desk.take(partition.popleft())
            begun = list(self._desk.begin(self._free, now))
            if not begun:
                return
            self._free -= len(begun)
            for task in begun:
                del self._left[task.key]
                tokens = self._chance.randint(max(1, task.cost // 4), task.cost)
                ends_at = now + tokens * _STEP
                heapq.heappush(self._ends, (ends_at, task.key))
                self._drawn.append(Drawn(task, now, ends_at, min(tokens, (until - now) // _STEP)))


def _of(load: Load, task: Assigned) -> bool:
    return (task.lane, task.tenant) == (load.lane, load.tenant)
