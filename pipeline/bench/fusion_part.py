"""The vote: what it gains, what stopping early saves, how fast it is, and how others compare the same answers."""

from __future__ import annotations

from typing import Final

from pipeline.bench.fusion_abacus import abacus
from pipeline.bench.fusion_rivals import equivalence
from pipeline.bench.fusion_speed import pathological_answers, speed
from pipeline.bench.fusion_stops import early_stop
from pipeline.bench.parts import Measure

MEASURES: Final[dict[str, Measure]] = {
    "abacus": abacus,
    "early-stop": early_stop,
    "speed": speed,
    "pathological": pathological_answers,
    "equivalence": equivalence,
}
