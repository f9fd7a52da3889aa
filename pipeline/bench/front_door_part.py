"""The front door: how many tasks it takes, how fast a lost view is there again, and how soon listeners hear."""

from __future__ import annotations

from typing import Final

from pipeline.bench.front_door_first_token import first_token
from pipeline.bench.front_door_listeners import listeners
from pipeline.bench.front_door_submits import submits
from pipeline.bench.front_door_view import rebuilds
from pipeline.bench.parts import Measure

MEASURES: Final[dict[str, Measure]] = {
    "submits": submits,
    "view": rebuilds,
    "first-token": first_token,
    "listeners": listeners,
}
