"""What prompts cost: read once for several samples, and read while others decode."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from pipeline.bench.effort import Effort
from pipeline.bench.engine_contenders import slots
from pipeline.bench.engine_models import Forward, Watched, load, ours
from pipeline.bench.engine_work import Work, uniform
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.engine.model import LoadedModel
from pipeline.settings import Settings

_SAMPLES = 5


def shared_prompt(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Five samples of a 300-token prompt with 16 tokens each, against five prompts that share nothing."""
    for name in effort.engine_models:
        loaded = ours(load(name, settings), settings)
        different = uniform(loaded, _SAMPLES, 300, 16)
        ways = {"shared": [different[0]] * _SAMPLES, "unshared": different}
        found: defaultdict[str, list[float]] = defaultdict(list)
        for repeat in range(effort.repeats):
            for way, works in ways.items():
                say(f"round {repeat + 1} of {effort.repeats}: {name}, {way} prompt")
                first, total, read = _time_to(settings, loaded, works)
                found[f"{way}, first token"].append(first)
                found[f"{way}, total"].append(total)
                found[f"{way}, tokens read"].append(read)
        title = f"{name}, five samples of 300 tokens"
        for measure, values in found.items():
            once = measure == "shared, tokens read"
            goal = Goal(Bound.AT_MOST, len(different[0].ids), "the prompt, once") if once else None
            unit = "tokens" if measure.endswith("read") else "s"
            yield Row(f"{title}: {measure}", figure(values), unit, goal)
        faster = zip(found["unshared, total"], found["shared, total"], strict=True)
        goal = Goal(Bound.AT_LEAST, 1.5)
        yield Row(f"{title}: unshared / shared, total", figure([a / b for a, b in faster]), "×", goal)


def _time_to(settings: Settings, loaded: LoadedModel, works: Sequence[Work]) -> tuple[float, float, int]:
    """Seconds to the first token and to the last, and how many tokens of prompts were read."""
    watched = Watched(loaded.model)
    with slots(settings, replace(loaded, model=watched), rows=_SAMPLES, prefix_bytes=0) as running:
        watched.forwards.clear()
        began = time.time()
        found = running.draw(works).values()
        total = time.time() - began
    first = min(each.first_token_at or each.finished_at for each in found) - began
    return first, total, sum(forward.tokens for forward in watched.forwards if not forward.is_step)


def stall(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Time between steps of four rows while a 1,500-token prompt is read."""
    for name in effort.engine_models:
        loaded = ours(load(name, settings), settings)
        found: defaultdict[str, list[float]] = defaultdict(list)
        for repeat in range(effort.repeats):
            say(f"round {repeat + 1} of {effort.repeats}: {name}, a long prompt beside four rows")
            step, chunk, longest = stall_among(_while_reading(settings, loaded))
            found["median step"].append(step)
            found["longest chunk"].append(chunk)
            found["longest time between steps"].append(longest)
            found["longest time between steps / (2 steps + a chunk)"].append(longest / (2 * step + chunk))
        for measure, values in found.items():
            ratio = "/" in measure
            goal = Goal(Bound.AT_MOST, 1.0) if ratio else None
            unit, scale = ("×", 1.0) if ratio else ("ms", 1000.0)
            yield Row(
                f"{name}, 1,500 tokens read: {measure}", figure([scale * v for v in values]), unit, goal
            )


def _while_reading(settings: Settings, loaded: LoadedModel) -> list[Forward]:
    watched = Watched(loaded.model)
    chunks = -(-1500 // settings.engine.prefill_chunk)
    rows = uniform(loaded, 4, 32, chunks + 40)
    (long,) = uniform(loaded, 1, 1500, 4)
    with slots(settings, replace(loaded, model=watched), rows=5) as running:
        watched.forwards.clear()
        for each in [*rows, long]:
            running.submit(each)
        running.wait()
    return watched.forwards


def stall_among(forwards: Sequence[Forward]) -> tuple[float, float, float]:
    """The median step and the longest chunk, and the longest time from the end of a step to that of the next."""
    steps = [forward for forward in forwards if forward.is_step]
    median = statistics.median(forward.ended - forward.began for forward in steps)
    chunk = max(forward.ended - forward.began for forward in forwards if not forward.is_step)
    return median, chunk, max(after.ended - before.ended for before, after in pairwise(steps))
