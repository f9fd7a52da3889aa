"""From repeated measurements to one figure and its spread. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of repeats, with the smallest and the largest of them."""

    value: float
    low: float
    high: float


def figure(repeats: Sequence[float]) -> Figure:
    """Of at least one repeat."""
    return Figure(statistics.median(repeats), min(repeats), max(repeats))


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank, of at least one value; ``share`` is 0.5 for p50."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
