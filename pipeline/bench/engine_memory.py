"""How long a model takes to load, and what a row takes."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch

from pipeline.bench.effort import Effort
from pipeline.bench.engine_models import load
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Row, single
from pipeline.engine.warm_up import warm_up
from pipeline.settings import Settings


def memory(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """What loading takes, and a row of 1,024 tokens."""
    for name in effort.engine_models:
        took: list[float] = []
        token_bytes = 0
        for _ in range(effort.repeats):
            say(f"loading {name}")
            began = time.perf_counter()
            loaded = load(name, settings)
            took.append(time.perf_counter() - began)
            with torch.inference_mode():
                token_bytes = warm_up(loaded)
        yield Row(f"{name}: loading", figure(took), "s")
        yield single(f"{name}: keys and values of a row of 1,024 tokens", token_bytes * 1024 / 2**20, "MiB")
