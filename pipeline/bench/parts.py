"""What can be measured: parts, each of named measures. A part is registered here by one entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Final

from pipeline.bench.effort import Effort
from pipeline.bench.rows import Row
from pipeline.settings import Settings

Say = Callable[[str], None]
Measure = Callable[[Settings, Effort, Say], Iterable[Row]]

ALL: Final = "all"
PARTS: Final[Mapping[str, str]] = {
    "pipeline": "pipeline.bench.pipeline_part",
    "fusion": "pipeline.bench.fusion_part",
    "engine": "pipeline.bench.engine_part",
    "scheduling": "pipeline.bench.scheduling_part",
    "front-door": "pipeline.bench.front_door_part",
}
"""Each part's module, loaded when it is asked for; its ``MEASURES`` maps a name to a ``Measure``."""


def measures_of(part: str) -> Mapping[str, Measure]:
    """The measures of a part, or of all, in the order in which they are made."""
    names = PARTS if part == ALL else (part,)
    found: dict[str, Measure] = {}
    for name in names:
        found |= import_module(PARTS[name]).MEASURES
    return found
