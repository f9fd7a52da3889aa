"""Everything that a run measured: as a table for people, as an object for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipeline.bench.rows import Row, shown


@dataclass(frozen=True, slots=True)
class Report:
    """``machine`` as ``describe_machine`` says it."""

    machine: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def missed(self) -> list[Row]:
        return [row for row in self.rows if row.met is False]

    def json(self) -> dict[str, Any]:
        return {"machine": dict(self.machine), "rows": [row.json() for row in self.rows]}

    def shown(self) -> Group:
        """The table, and one line that says which goals are missed."""
        table = Table(box=None, pad_edge=False)
        table.add_column("measure", overflow="fold")
        table.add_column("value", justify="right", no_wrap=True)
        table.add_column("unit", no_wrap=True)
        table.add_column("min – max", justify="right", no_wrap=True)
        table.add_column("goal", overflow="fold")
        table.add_column("", no_wrap=True)
        for row in self.rows:
            mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: ""}[row.met]
            table.add_row(row.name, *_cells(row), _goal_of(row), mark)
        notes = [Text(f"{row.name}: {row.note}", style="yellow") for row in self.rows if row.note]
        return Group(Text(_sentence(self.machine), style="dim"), table, *notes, self._verdict())

    def _verdict(self) -> Text:
        judged = [row for row in self.rows if row.met is not None]
        if not judged:
            return Text(f"{len(self.rows)} figures, none with a goal")
        met = len(judged) - len(self.missed)
        return Text(f"{met} of {len(judged)} goals met", style="red" if self.missed else "green")


def _cells(row: Row) -> tuple[str, str, str]:
    found = row.figure
    if found is None:
        return "–", row.unit, ""
    spread = "" if found.low == found.high else f"{shown(found.low)} – {shown(found.high)}"
    return shown(found.value), row.unit, spread


def _goal_of(row: Row) -> str:
    return str(row.goal) if row.goal else ""


def _sentence(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['cpu'] or 'unknown processor'}, "
        f"load {machine['load']}; Python {machine['python']}, Kafka {machine['kafka']}"
    )
