"""How long a model takes to load, from which file, and what a row takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import torch

from pipeline.bench.effort import Effort
from pipeline.bench.engine_models import NAMED, load
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Row, single
from pipeline.engine.default_model import fetch_gguf, read_gguf
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
        if name == NAMED and not settings.model:
            yield single(f"{name}: loading from GGUF", _gguf(say), "s")
        yield single(f"{name}: keys and values of a row of 1,024 tokens", token_bytes * 1024 / 2**20, "MiB")


def _gguf(say: Say) -> float:
    """Of the default model, which comes as such a file and is converted once."""
    with tempfile.TemporaryDirectory() as folder:
        say("fetching the GGUF file")
        path = fetch_gguf(Path(folder))
        say("loading it")
        began = time.perf_counter()
        read_gguf(path)
        return time.perf_counter() - began
