"""What a request costs with more shards and with more requests waiting, and how much memory each role takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.bench.effort import Effort
from pipeline.bench.load import Answers, rate_of
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row, single
from pipeline.bench.running_pipeline import Pipeline, Setup, running_pipeline
from pipeline.settings import Settings

_FLAT = 1.2
"""A request may cost a fifth more at the largest than at the smallest."""


def shards(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Saturated, at 1, 2, 4 shards, one process a role."""
    costs: dict[int, float] = {}
    for count in effort.shards:
        say(f"growth: {count} shards")
        with running_pipeline(settings, Setup(shards=count)) as pipeline:
            pipeline.load.warm_up(effort.warm)
            before = pipeline.usage.cpu_seconds()
            answers = pipeline.load.saturate(effort.saturated, effort.in_flight)
            after = pipeline.usage.cpu_seconds()
            rate = rate_of(answers)
            if rate:
                costs[count] = 1 / rate
            yield single(f"{count} shards: saturated", rate, "requests/s")
            busy = {role: (after[role] - before[role]) / effort.saturated for role in after}
            yield from _per_role(f"{count} shards: processor", busy, "cores")
            yield from _per_role(f"{count} shards: memory", pipeline.usage.resident_mib(), "MiB")
    yield from _growth("shards", costs)


def backlogs(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Requests that wait when the agents start, worked off."""
    costs: dict[int, float] = {}
    for count in effort.backlogs:
        say(f"growth: {count:,} waiting requests")
        with running_pipeline(settings, Setup(waiting=count)) as pipeline:
            answers = pipeline.load.drain(count, effort.backlog_limit)
            rate = rate_of(answers)
            if rate:
                costs[count] = 1 / rate
            left = count - len(answers.at)
            note = f"{left:,} were left after {effort.backlog_limit:.0f} s" if left else ""
            yield single(f"{count:,} waiting: worked off", rate, "requests/s", note=note)
            yield from _cpu_per_request(f"{count:,} waiting: processor", pipeline, answers)
            yield from _per_role(f"{count:,} waiting: memory", pipeline.usage.resident_mib(), "MiB")
    yield from _growth("waiting", costs)


def _cpu_per_request(name: str, pipeline: Pipeline, answers: Answers) -> Iterable[Row]:
    """Starting up is in it, so it says little about a short backlog."""
    total = sum(pipeline.usage.cpu_seconds().values())
    yield single(f"{name} a request, with start-up", 1000 * total / max(1, len(answers.at)), "ms")


def _per_role(name: str, values: Mapping[str, float], unit: str) -> Iterable[Row]:
    for role, value in values.items():
        yield single(f"{name}, {role}", value, unit)


def _growth(what: str, costs: Mapping[int, float]) -> Iterable[Row]:
    known = list(costs)
    for count in known[1:]:
        first = known[0]
        grown = costs[count] / costs[first]
        name = f"time a request, {count:,} / {first:,} {what}"
        yield single(name, grown, "×", Goal(Bound.AT_MOST, _FLAT))
