"""One measured figure, its goal, and whether that is met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipeline.bench.figures import Figure


class Bound(StrEnum):
    """Which side of its goal a figure has to be on."""

    AT_MOST = "≤"
    AT_LEAST = "≥"
    BELOW = "<"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound in the row's unit; ``reason`` says what it is derived from."""

    bound: Bound
    limit: float
    reason: str = ""

    def met(self, value: float) -> bool:
        match self.bound:
            case Bound.AT_MOST:
                return value <= self.limit
            case Bound.AT_LEAST:
                return value >= self.limit
            case Bound.BELOW:
                return value < self.limit

    def __str__(self) -> str:
        limit = f"{self.bound} {shown(self.limit)}"
        return f"{limit} ({self.reason})" if self.reason else limit


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        figure: ``None`` when it was not measured; ``note`` then says why and what to do.
        goal: ``None`` for what is only told.
    """

    name: str
    figure: Figure | None
    unit: str
    goal: Goal | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """``None`` without a goal or a figure."""
        if self.goal is None or self.figure is None:
            return None
        return self.goal.met(self.figure.value)

    def json(self) -> dict[str, Any]:
        found = self.figure
        return {
            "name": self.name,
            "value": _rounded(found.value) if found else None,
            "unit": self.unit,
            "goal": str(self.goal) if self.goal else None,
            "met": self.met,
            "spread": [_rounded(found.low), _rounded(found.high)] if found else None,
            "note": self.note,
        }


def single(name: str, value: float, unit: str, goal: Goal | None = None, note: str = "") -> Row:
    """A row of one measurement, which has no spread of its own."""
    return Row(name, Figure(value, value, value), unit, goal, note)


def shown(value: float) -> str:
    """Three significant digits, none lost before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: float) -> float:
    return round(value, 3)
