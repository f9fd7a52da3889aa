"""The engine by itself, without Kafka: on the model that the settings name and on a tiny random one."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Final

from pipeline.bench.effort import Effort
from pipeline.bench.parts import Measure, Say
from pipeline.bench.rows import Row
from pipeline.engine.model import require_packages
from pipeline.settings import Settings


def _measure(module: str, name: str) -> Measure:
    """A measure whose module is imported when it is made: torch is not installed everywhere."""

    def measure(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
        require_packages()
        found: Measure = getattr(import_module(f"pipeline.bench.{module}"), name)
        return found(settings, effort, say)

    return measure


MEASURES: Final[dict[str, Measure]] = {
    "engine-memory": _measure("engine_memory", "memory"),
    "engine-mixed": _measure("engine_rates", "mixed_lengths"),
    "engine-long": _measure("engine_rates", "long_prompts"),
    "engine-load": _measure("engine_load", "open_loop"),
    "engine-shared": _measure("engine_prompts", "shared_prompt"),
    "engine-stall": _measure("engine_prompts", "stall"),
    "engine-types": _measure("engine_rates", "number_types"),
    "engine-lookup": _measure("engine_lookup", "prompt_lookup"),
}
