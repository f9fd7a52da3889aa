"""Tokens a second of all ways to draw many answers, side by side; and by type of number."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.bench.effort import Effort
from pipeline.bench.engine_contenders import contenders, slots
from pipeline.bench.engine_models import ROWS, load, ours
from pipeline.bench.engine_work import Work, mixed, tokens, uniform
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.engine.int8 import quantise
from pipeline.settings import Settings

_GOALS = {
    "sequential generate": Goal(Bound.AT_LEAST, 3.4),
    "transformers' manager": Goal(Bound.AT_LEAST, 1.25),
    "static batches, by length": Goal(Bound.AT_LEAST, 1.0),
    "static batches, in order": None,
}


def mixed_lengths(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Answers of 8 to 128 tokens, at most 16 rows."""
    for name in effort.engine_models:
        loaded = load(name, settings)
        yield from _compare(settings, effort, say, name, f"{name}, mixed", mixed(loaded, effort.engine_tasks))


def long_prompts(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Prompts of 300 tokens, answers of 100."""
    for name in effort.engine_models:
        works = uniform(load(name, settings), effort.engine_tasks, 300, 100 if effort.engine_tasks > 8 else 4)
        yield from _compare(settings, effort, say, name, f"{name}, 300 + {works[0].new_tokens}", works)


def number_types(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """The slot engine in float32 and bfloat16 and with int8 weights, in turn."""
    for name in effort.engine_models:
        loaded = load(name, settings)
        plain = replace(loaded, model=loaded.model.float())
        int8 = copy.deepcopy(plain.model)
        quantise(int8)
        models = {
            "float32": ours(plain, settings),
            "float32, not packed": plain,
            "float32, int8 weights": ours(replace(plain, model=int8), settings),
            "bfloat16": ours(replace(plain, model=copy.deepcopy(plain.model).bfloat16()), settings),
        }
        works = mixed(loaded, effort.engine_tasks)
        rates: defaultdict[str, list[float]] = defaultdict(list)
        for repeat in range(effort.repeats):
            for dtype, model in models.items():
                say(f"round {repeat + 1} of {effort.repeats}: {name}, {dtype}")
                with slots(settings, model, rows=ROWS) as running:
                    began = time.perf_counter()
                    running.draw(works)
                    rates[dtype].append(tokens(works) / (time.perf_counter() - began))
        for dtype, values in rates.items():
            yield Row(f"{name}, mixed: slots in {dtype}", figure(values), "tokens/s")


def _compare(
    settings: Settings, effort: Effort, say: Say, model: str, name: str, works: Sequence[Work]
) -> Iterable[Row]:
    ways = contenders(settings, load(model, settings), ROWS)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for repeat in range(effort.repeats):
        for way, draw in ways.items():
            say(f"round {repeat + 1} of {effort.repeats}: {name}, {way}")
            began = time.perf_counter()
            draw(works)
            rates[way].append(tokens(works) / (time.perf_counter() - began))
    for way, values in rates.items():
        yield Row(f"{name}: {way}", figure(values), "tokens/s")
    for way, goal in _GOALS.items():
        ratios = [ours / theirs for ours, theirs in zip(rates["slots"], rates[way], strict=True)]
        yield Row(f"{name}: slots / {way}", figure(ratios), "×", goal)
