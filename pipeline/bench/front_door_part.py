"""The front door: how fast a lost view is there again."""

from __future__ import annotations

from typing import Final

from pipeline.bench.front_door_view import rebuilds
from pipeline.bench.parts import Measure

MEASURES: Final[dict[str, Measure]] = {
    "view": rebuilds,
}
