"""The map from a raw confidence to how often answers with it were right, and the errors that judge such a map.

A map is a few knots, written as JSON; it is fitted elsewhere (``pipeline.calibrating``) and applied here without
any library.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from pipeline.errors import ConfigError

VERSION = 1
"""Of the JSON form; a reader refuses others."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A monotone, piecewise linear map of [0, 1] into [0, 1], level outside its knots.

    Attributes:
        knots: (raw, calibrated), both ascending, at least one.
        fitted_on: labelled results that it was fitted on.
    """

    knots: tuple[tuple[float, float], ...]
    fitted_on: int = 0

    def __post_init__(self) -> None:
        values = [value for knot in self.knots for value in knot]
        if not values or not all(math.isfinite(value) and 0 <= value <= 1 for value in values):
            raise ValueError("knots must be pairs of numbers in [0, 1], at least one")
        if any(x0 >= x1 or y0 > y1 for (x0, y0), (x1, y1) in pairwise(self.knots)):
            raise ValueError("knots must ascend")

    def apply(self, raw: float) -> float:
        """The calibrated confidence; never decreasing in ``raw``."""
        above = bisect_right(self.knots, raw, key=lambda knot: knot[0])
        if above == 0:
            return self.knots[0][1]
        if above == len(self.knots):
            return self.knots[-1][1]
        (x0, y0), (x1, y1) = self.knots[above - 1], self.knots[above]
        # Clamped, so that rounding never steps outside the two knots.
        return min(y1, max(y0, y0 + (y1 - y0) * (raw - x0) / (x1 - x0)))

    def to_json(self) -> str:
        """One line a knot, so that a change of the map can be read."""
        knots = ",\n".join(f"    [{raw!r}, {calibrated!r}]" for raw, calibrated in self.knots)
        return (
            f'{{\n  "tallystream_calibration": {VERSION},\n  "fitted_on": {self.fitted_on},\n'
            f'  "knots": [\n{knots}\n  ]\n}}\n'
        )

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read a map.

        Raises:
            ConfigError: it is none; says what is wrong.
        """
        try:
            read: Any = json.loads(text)
            found = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
            if "tallystream_calibration" not in found:
                raise ConfigError("no calibration map: the field tallystream_calibration is missing")
            version = found["tallystream_calibration"]
            if version != VERSION:
                raise ConfigError(f"a calibration map of version {version}; this one reads version {VERSION}")
            knots = tuple((float(raw), float(calibrated)) for raw, calibrated in found["knots"])
            return cls(knots, int(found.get("fitted_on", 0)))
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"no calibration map: {error}") from error


@dataclass(frozen=True, slots=True)
class Bin:
    """Results of about one confidence: how many, their mean confidence, and the share that was right."""

    count: int
    confidence: float
    accuracy: float


def equal_width(confidences: Sequence[float], correct: Sequence[bool], bins: int) -> list[Bin]:
    """The results by confidence in ``bins`` ranges of one width; empty ranges are left out."""
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for pair in zip(confidences, correct, strict=True):
        held[min(bins - 1, int(pair[0] * bins))].append(pair)
    return [_bin(pairs) for pairs in held if pairs]


def equal_mass(confidences: Sequence[float], correct: Sequence[bool], bins: int) -> list[Bin]:
    """The results in ``bins`` parts of about one size, in order of confidence; equal confidences are never parted."""
    ordered = sorted(zip(confidences, correct, strict=True))
    found: list[Bin] = []
    start = 0
    for part in range(1, bins + 1):
        end = max(start, round(part * len(ordered) / bins))
        while 0 < end < len(ordered) and ordered[end][0] == ordered[end - 1][0]:
            end += 1
        if end > start:
            found.append(_bin(ordered[start:end]))
        start = end
    return found


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """ECE: the mean distance of confidence and accuracy, by counts (Naeini et al., 2015); 0 is calibrated."""
    total = sum(each.count for each in bins)
    return (
        math.fsum(each.count * abs(each.confidence - each.accuracy) for each in bins) / total
        if total
        else 0.0
    )


def brier_score(confidences: Sequence[float], correct: Sequence[bool]) -> float:
    """The mean square of confidence minus truth (Brier, 1950); 0 is perfect, 0.25 is what one half always gets."""
    squares = [(confidence - right) ** 2 for confidence, right in zip(confidences, correct, strict=True)]
    return math.fsum(squares) / len(squares) if squares else 0.0


def _bin(pairs: Sequence[tuple[float, bool]]) -> Bin:
    count = len(pairs)
    confidence = math.fsum(confidence for confidence, _ in pairs) / count
    return Bin(count, confidence, sum(right for _, right in pairs) / count)
