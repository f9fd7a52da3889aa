"""What it costs to decide which sample begins next, with few and with many waiting."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable

from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.simulated_worker import Load, task_of
from pipeline.engine.base import Completion
from pipeline.events import FinishReason
from pipeline.scheduling.desk import TaskDesk
from pipeline.settings import Settings, WorkerSettings
from pipeline.topics import LANES

_TENANTS = 97
_DECISIONS = 2_000


def decisions(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """A row is freed, what is next begins, and another task comes; processor time, in turn for each backlog."""
    few, many = effort.backlogs[0], effort.backlogs[-1]
    times: dict[int, list[float]] = {few: [], many: []}
    for _ in range(effort.repeats):
        for waiting in (few, many):
            say(f"decisions with {waiting:,} waiting")
            times[waiting].append(_microseconds(settings.worker, waiting))
    for waiting in (few, many):
        yield Row(f"a decision with {waiting:,} waiting", figure(times[waiting]), "µs")
    ratios = [after / before for before, after in zip(times[few], times[many], strict=True)]
    goal = Goal(Bound.AT_MOST, 1.2)
    yield Row(f"a decision, {many:,} / {few:,} waiting", figure(ratios), "×", goal)


def _microseconds(worker: WorkerSettings, waiting: int) -> float:
    desk = TaskDesk(worker.quotas, max_lane_wait=worker.max_lane_wait, tenant_weights=worker.tenant_weights)
    loads = [
        Load(number % len(LANES), f"tenant {number % _TENANTS}") for number in range(waiting + _DECISIONS)
    ]
    tasks = [task_of(load, number, 0, number) for number, load in enumerate(loads)]
    for task in tasks[:waiting]:
        desk.take(task)
    bound = round(1000 * worker.max_lane_wait)
    gc.collect()
    gc.freeze()  # as the worker does with what it has loaded; else the collector is measured
    started = time.process_time()
    for number, task in enumerate(tasks[waiting:]):
        (begun,) = desk.begin(1, bound + number)
        desk.end(Completion(begun.key, "", FinishReason.STOP, 0, 0, None, 0, 0.0, None, 0.0))
        desk.published(desk.publishable()[1])
        desk.take(task)
    took = time.process_time() - started
    gc.unfreeze()
    return 1_000_000 * took / _DECISIONS
