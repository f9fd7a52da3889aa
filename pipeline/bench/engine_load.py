"""Requests that come by chance, more than one at a time can be served: how many are, and how long each takes."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pipeline.bench.effort import Effort
from pipeline.bench.engine_contenders import generate, slots
from pipeline.bench.engine_models import ROWS, load, ours
from pipeline.bench.engine_work import Work, uniform
from pipeline.bench.figures import figure, percentile
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.engine.base import TaskKey
from pipeline.engine.model import LoadedModel
from pipeline.settings import Settings

_OFFERED = 2.5
_REPORTED = "as users of dynamic batching report"
_ONE, _SLOTS = "one at a time", "slots"


def open_loop(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Poisson arrivals at 2.5 × the rate at which serving one after another saturates."""
    for name in effort.engine_models:
        loaded = load(name, settings)
        packed = ours(loaded, settings)
        works = uniform(loaded, effort.engine_tasks, 32, 32)
        found: defaultdict[str, list[float]] = defaultdict(list)
        for repeat in range(effort.repeats):
            say(f"round {repeat + 1} of {effort.repeats}: {name}, {_ONE}")
            service = _service_times(loaded, works)
            capacity = len(works) / sum(service)
            chance = random.Random(repeat)
            arrivals = list(accumulate(chance.expovariate(_OFFERED * capacity) for _ in works))
            _note(found, _ONE, arrivals, ends_in_turn(arrivals, service))
            say(f"round {repeat + 1} of {effort.repeats}: {name}, {_SLOTS}")
            with slots(settings, packed, rows=ROWS) as running:
                began = time.perf_counter()
                running.draw(works)
                found["saturated"].append(len(works) / (time.perf_counter() - began) / capacity)
            _note(found, _SLOTS, arrivals, _serve(settings, packed, works, arrivals))
        yield from _rows(name, found)


def _service_times(loaded: LoadedModel, works: Sequence[Work]) -> list[float]:
    took: list[float] = []
    for each in works:
        began = time.perf_counter()
        generate(loaded.model, [each])
        took.append(time.perf_counter() - began)
    return took


def ends_in_turn(arrivals: Sequence[float], service: Sequence[float]) -> list[float]:
    """When each request ends that waits for all before it: known without waiting, from the service times."""
    ends: list[float] = []
    for arrival, took in zip(arrivals, service, strict=True):
        ends.append(max(arrival, ends[-1] if ends else 0.0) + took)
    return ends


def _serve(
    settings: Settings, loaded: LoadedModel, works: Sequence[Work], arrivals: Sequence[float]
) -> list[float]:
    """When each request ends, in seconds since the first could arrive."""
    with slots(settings, loaded, rows=ROWS) as running:
        origin = time.time()
        keys: list[TaskKey] = []
        for arrival, each in zip(arrivals, works, strict=True):
            time.sleep(max(0.0, origin + arrival - time.time()))
            keys.append(running.submit(each))
        found = running.wait()
        return [found[key].finished_at - origin for key in keys]


def _note(
    found: defaultdict[str, list[float]], way: str, arrivals: Sequence[float], ends: Sequence[float]
) -> None:
    took = [end - arrival for arrival, end in zip(arrivals, ends, strict=True)]
    found[f"{way}: requests/s"].append(len(ends) / max(ends))
    found[f"{way}: mean"].append(sum(took) / len(took))
    found[f"{way}: p99"].append(percentile(took, 0.99))


def _rows(name: str, found: defaultdict[str, list[float]]) -> Iterable[Row]:
    title = f"{name}, open loop"
    for way in (_ONE, _SLOTS):
        yield Row(f"{title}: {way}", figure(found[f"{way}: requests/s"]), "requests/s")
        for measure in ("mean", "p99"):
            yield Row(f"{title}: {way}, {measure}", figure(found[f"{way}: {measure}"]), "s")
    goal = Goal(Bound.AT_LEAST, 3.4, _REPORTED)
    yield Row(f"{title}: slots / one at a time, all at once", figure(found["saturated"]), "×", goal)
    for measure, limit in (("mean", 3.1), ("p99", 5.2)):
        pairs = zip(found[f"{_SLOTS}: {measure}"], found[f"{_ONE}: {measure}"], strict=True)
        ratios = figure([ours / theirs for ours, theirs in pairs])
        goal = Goal(Bound.AT_MOST, round(1 / limit, 3), f"1 / {limit}, {_REPORTED}")
        yield Row(f"{title}: slots / one at a time, {measure}", ratios, "×", goal)
