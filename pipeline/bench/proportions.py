"""Shares and their intervals. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from pipeline.bench.figures import Figure

_Z: Final = 1.959963984540054
"""Of a two-sided interval of 95 %."""
_RESAMPLES: Final = 2_000


def share(hits: Sequence[bool]) -> Figure:
    """The share of hits with Wilson's score interval of 95 % (Wilson, 1927)."""
    n, p = len(hits), sum(hits) / len(hits)
    middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
    return Figure(p, min(p, middle - half), max(p, middle + half))


def gain(before: Sequence[bool], after: Sequence[bool], seed: int = 0) -> Figure:
    """The difference of two shares on the same questions, with a paired bootstrap interval of 95 %."""
    differences = [int(b) - int(a) for a, b in zip(before, after, strict=True)]
    n, chance = len(differences), random.Random(seed)
    means = sorted(sum(chance.choices(differences, k=n)) / n for _ in range(_RESAMPLES))
    value = sum(differences) / n
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return Figure(value, min(low, value), max(high, value))


def in_percent(found: Figure) -> Figure:
    return Figure(100 * found.value, 100 * found.low, 100 * found.high)
