"""Who has how much of a simulated engine, and how long the others wait."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure, percentile
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.simulated_worker import Load, Played, seconds_a_request, simulate
from pipeline.settings import Settings, WorkerSettings
from pipeline.topics import LANES

_ROWS = 8
_HOUR = 3_600_000
_FLOOD = 10_000


def shares(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """All lanes always full: what each has of the tokens that are drawn, against its quota."""
    worker = settings.worker
    lanes = [_full(lane, effort, _ROWS) for lane in range(len(LANES))]
    first, last = lanes[:-1], lanes[-1].lane
    due = [100 * quota / sum(worker.quotas) for quota in worker.quotas]
    for title, loads in {
        "all lanes full": lanes,
        "the last lane's samples 16 times as long": [
            *first,
            Load(last, tokens=2048, backlog=lanes[-1].backlog),
        ],
        "the last lane's backlog an hour old": [
            *first,
            Load(last, queued_at=-_HOUR, backlog=lanes[-1].backlog),
        ],
    }.items():
        say(f"shares: {title}")
        found = [
            _percent(simulate(loads, worker, rows=_ROWS, seconds=effort.simulated, seed=seed))
            for seed in range(effort.repeats)
        ]
        for lane in (0, last):
            part = figure([each[lane] for each in found])
            yield Row(f"{title}: lane {lane} (quota {due[lane]:.1f} %)", part, "%")
        furthest = [max(abs(has - wanted) for has, wanted in zip(each, due, strict=True)) for each in found]
        goal = Goal(Bound.AT_MOST, 5)
        yield Row(f"{title}: the lane furthest from its quota", figure(furthest), "points", goal)


def low_lane(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """A request every 20 s in the last lane beside a full lane 0, also where lane 0 would have nearly all."""
    worker = settings.worker
    greedy = worker.model_copy(update={"quotas": (1000, 1, 1, 1, 1, 1)})
    goal = Goal(Bound.AT_MOST, worker.max_lane_wait, "max_lane_wait")
    urgent, low = _full(0, effort, _ROWS), Load(len(LANES) - 1, every=20.0)
    for title, chosen, wanted in (
        ("", worker, goal),
        (", quotas 1000:1", greedy, goal),
        (", quotas 1000:1 and no bound", greedy.model_copy(update={"max_lane_wait": math.inf}), None),
    ):
        say(f"the last lane beside a full lane 0{title}")
        longest = [
            max(
                simulate([urgent, low], chosen, rows=_ROWS, seconds=effort.simulated, seed=seed).waits(low),
                default=0.0,
            )
            for seed in range(effort.repeats)
        ]
        yield Row(f"last lane beside a full lane 0{title}: longest wait", figure(longest), "s", wanted)


def urgent_requests(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Requests of priority 0, a sixth of what the engine can do, alone and beside full lanes."""
    for rows in (_ROWS, 4 * _ROWS):
        others = [_full(lane, effort, rows) for lane in range(1, len(LANES))]
        for samples in (1, 3):
            say(f"priority 0 beside full lanes: {rows} rows, {samples} samples")
            load = Load(0, samples=samples, every=6 * seconds_a_request(Load(0, samples=samples), rows))
            name = f"priority 0, {samples} samples, {rows} rows: p95"
            goal = Goal(Bound.AT_MOST, 1.2)
            yield from _beside(name, "full lanes", load, others, settings.worker, effort, rows, goal)


def tenants(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """One tenant's requests, a tenth of what the engine can do, alone and beside 10,000 of another in its lane."""
    flood = Load(3, tenant="flood", backlog=min(_FLOOD, _full(3, effort, _ROWS).backlog))
    for title, in_hand in {"in the worker's hands": True, "behind the flood in the partition": False}.items():
        for samples in (1, 3):
            say(f"a tenant {title}: {samples} samples")
            every = 10 * seconds_a_request(Load(3, samples=samples), _ROWS)
            load = Load(3, tenant="one", samples=samples, every=every, in_hand=in_hand)
            name = f"a tenant {title}, {samples} samples: p95"
            goal = Goal(Bound.AT_MOST, 1.5)
            yield from _beside(name, "a flood", load, [flood], settings.worker, effort, _ROWS, goal)


def _full(lane: int, effort: Effort, rows: int) -> Load:
    """More than the engine can draw if it draws nothing else."""
    return Load(lane, backlog=round(1.5 * effort.simulated / seconds_a_request(Load(lane), rows)))


def _beside(
    name: str,
    what: str,
    load: Load,
    others: Sequence[Load],
    worker: WorkerSettings,
    effort: Effort,
    rows: int,
    goal: Goal,
) -> Iterable[Row]:
    p95 = [
        [
            percentile(
                simulate(loads, worker, rows=rows, seconds=effort.simulated, seed=seed).latencies(load), 0.95
            )
            for loads in ([load], [load, *others])
        ]
        for seed in range(effort.repeats)
    ]
    yield Row(f"{name} alone", figure([alone for alone, _ in p95]), "s")
    yield Row(f"{name} beside {what}", figure([beside for _, beside in p95]), "s")
    yield Row(f"{name} beside {what} / alone", figure([beside / alone for alone, beside in p95]), "×", goal)


def _percent(played: Played) -> list[float]:
    tokens = Counter[int]()
    for each in played.drawn:
        tokens[each.task.lane] += each.tokens
    return [100 * tokens[lane] / tokens.total() for lane in range(len(LANES))]
