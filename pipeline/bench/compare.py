"""Rates and latencies of all contenders, each started afresh in every round, only one running at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from pipeline.bench.celery_redis import missing, redis_server, running_celery
from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure, percentile
from pipeline.bench.load import Load, rate_of
from pipeline.bench.parts import Say
from pipeline.bench.relay import running_relay
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.running_pipeline import Setup, running_pipeline
from pipeline.bench.variant import Variant
from pipeline.settings import Settings

CALM_RATE, BUSY_RATE = 20.0, 50.0
RELAY, PIPELINE, ACKS, CELERY = "bare relay", "pipeline", "pipeline, acks", "Celery + Redis"
_RATE = "saturated"
_TOO_FEW = "not measured: fewer than two answers came in time; run it on a machine that is less busy"
_MEASURES = {
    _RATE: "requests/s",
    "p50 at 20/s": "ms",
    "p99 at 20/s": "ms",
    "p50 at 50/s": "ms",
    "p99 at 50/s": "ms",
}

Start = Callable[[], AbstractContextManager[Load]]


@dataclass(slots=True)
class Found:
    """The repeats of each measure, by contender."""

    repeats: defaultdict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def median(self, contender: str, measure: str) -> float | None:
        values = self.repeats.get((contender, measure))
        return figure(values).value if values else None


def compare(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """The limit, the pipeline, the pipeline with acks, and Celery: A B C D A B C D …"""
    found, absent = Found(), missing()
    with ExitStack() as stack:
        starts: dict[str, Start] = {
            RELAY: partial(running_relay, settings),
            PIPELINE: partial(_load_on, settings, Setup()),
            ACKS: partial(_load_on, settings, Setup(ACKS, variant=Variant.ACKS)),
        }
        if not absent:
            starts[CELERY] = partial(running_celery, stack.enter_context(redis_server()))
        for repeat in range(effort.repeats):
            for name, start in starts.items():
                say(f"round {repeat + 1} of {effort.repeats}: {name}")
                with start() as load:
                    for measure, value in _measure(load, effort, busy=name in (PIPELINE, CELERY)):
                        found.repeats[name, measure].append(value)
    return list(_rows(found, absent))


@contextmanager
def _load_on(settings: Settings, setup: Setup) -> Generator[Load]:
    with running_pipeline(settings, setup) as pipeline:
        yield pipeline.load


def _measure(load: Load, effort: Effort, *, busy: bool) -> Iterable[tuple[str, float]]:
    load.warm_up(effort.warm)
    for rate in (CALM_RATE, BUSY_RATE) if busy else (CALM_RATE,):
        took = load.steady(rate, effort.steady).milliseconds
        yield f"p50 at {rate:.0f}/s", percentile(took, 0.5)
        yield f"p99 at {rate:.0f}/s", percentile(took, 0.99)
    if rate := rate_of(load.saturate(effort.saturated, effort.in_flight)):
        yield _RATE, rate


def _rows(found: Found, absent: str) -> Iterable[Row]:
    for name in (RELAY, PIPELINE, ACKS, CELERY):
        for measure, unit in _MEASURES.items():
            values = found.repeats.get((name, measure))
            if values:
                yield Row(f"{name}: {measure}", figure(values), unit, _goal(name, measure, found))
            elif name == CELERY and absent:
                yield Row(f"{name}: {measure}", None, unit, note=absent)
            elif measure == _RATE:
                yield Row(f"{name}: {measure}", None, unit, note=_TOO_FEW)
    yield from _beside_celery(found, absent)
    yield from _price(found)


def _goal(name: str, measure: str, found: Found) -> Goal | None:
    limit = found.median(RELAY, measure)
    if name != PIPELINE or limit is None:
        return None
    if measure == _RATE:
        return Goal(Bound.AT_LEAST, 0.1 * limit, "0.1 × the relay's")
    return Goal(Bound.AT_MOST, 3 * limit, "3 × the relay's")


def _beside_celery(found: Found, absent: str) -> Iterable[Row]:
    rates = found.repeats[PIPELINE, _RATE], found.repeats[CELERY, _RATE]
    ratios = [ours / theirs for ours, theirs in zip(*rates, strict=False) if theirs]
    busy = found.repeats[PIPELINE, "p99 at 50/s"], found.repeats[CELERY, "p99 at 50/s"]
    slower = [ours / theirs for ours, theirs in zip(*busy, strict=False)]
    yield Row(
        "pipeline / Celery + Redis: saturated",
        figure(ratios) if ratios else None,
        "×",
        Goal(Bound.AT_LEAST, 5),
        absent,
    )
    yield Row(
        "pipeline / Celery + Redis: p99 at 50/s",
        figure(slower) if slower else None,
        "×",
        Goal(Bound.BELOW, 1),
        absent,
    )


def _price(found: Found) -> Iterable[Row]:
    """What transactions cost: as shipped, divided by acks, round by round."""
    for measure in (_RATE, "p50 at 20/s", "p99 at 20/s"):
        pairs = zip(found.repeats[PIPELINE, measure], found.repeats[ACKS, measure], strict=False)
        ratios = [ours / acks for ours, acks in pairs if acks]
        if ratios:
            yield Row(f"exactly once / acks: {measure}", figure(ratios), "×")
