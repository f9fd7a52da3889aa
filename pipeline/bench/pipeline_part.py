"""The whole pipeline, with an engine that takes no time."""

from __future__ import annotations

from typing import Final

from pipeline.bench.compare import compare
from pipeline.bench.growth import backlogs, shards
from pipeline.bench.hops import hops
from pipeline.bench.parts import Measure
from pipeline.bench.recovery import recovery

MEASURES: Final[dict[str, Measure]] = {
    "compare": compare,
    "hops": hops,
    "shards": shards,
    "backlog": backlogs,
    "recovery": recovery,
}
