"""How a replay looks in a terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from pipeline.commands.moments import time_of
from pipeline.commands.show import cell, grid, one_line
from pipeline.replay.survey import Candidate, Plan, Planned

_GROUPS, _EXAMPLES, _ORIGINS = 20, 5, 3


def group_table(candidates: Sequence[Candidate]) -> Table:
    """How many requests of each priority, tenant and mode, the largest groups first."""
    groups: defaultdict[tuple[int, str, str], list[Candidate]] = defaultdict(list)
    for each in candidates:
        groups[each.priority, each.tenant, each.mode.value].append(each)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    table = _numbers("priority", "tenant", "mode")
    for (priority, tenant, mode), members in ordered[:_GROUPS]:
        table.add_row(str(priority), cell(one_line(tenant, 40)), mode, *_figures(members))
    if rest := [each for _, members in ordered[_GROUPS:] for each in members]:
        table.add_row("…", f"{len(ordered) - _GROUPS} more groups", "", *_figures(rest))
    if len(ordered) > 1:
        table.add_row("all", "", "", *_figures(candidates))
    return table


def example_table(items: Sequence[Planned]) -> Table:
    """The first requests that are asked again, and the first of what is left out, with the reason."""
    table = grid("id", "asked", "run", "bytes", "begins", "", right=("run", "bytes"))
    for chosen in ([item for item in items if not item.reason], [item for item in items if item.reason]):
        for item in chosen[:_EXAMPLES]:
            each = item.candidate
            table.add_row(
                cell(one_line(each.request_id, 40)),
                time_of(each.at),
                str(each.run),
                f"{each.size:,}",
                cell(one_line(each.begins, 50)),
                cell(f"— {item.reason}" if item.reason else ""),
            )
        if len(chosen) > _EXAMPLES:
            table.add_row(f"… {len(chosen) - _EXAMPLES:,} more", "", "", "", "", "")
    return table


def unreadable_line(plan: Plan) -> str:
    """Records that are no requests, by code, with the first few named; empty when there are none."""
    parts: list[str] = []
    for code, origins in sorted(plan.unreadable.items()):
        named = ", ".join(origins[:_ORIGINS]) + (", …" if len(origins) > _ORIGINS else "")
        parts.append(f"{len(origins)} {code} ({named})")
    return ", ".join(parts)


def plan_object(item: Planned, run: int) -> dict[str, Any]:
    """One request, for ``--json``; times in ms."""
    each = item.candidate
    return {
        "request_id": each.request_id,
        "partition": each.place[0],
        "offset": each.place[1],
        "at": each.at,
        "tenant": each.tenant,
        "priority": each.priority,
        "mode": each.mode,
        "callback": each.callback,
        "bytes": each.size,
        "was_run": each.run,
        "run": run,
        "done": item.done,
        "reason": item.reason or None,
    }


def _numbers(*names: str) -> Table:
    figures = ("requests", "callbacks", "bytes", "mean")
    return grid(*names, *figures, right=figures)


def _figures(members: Sequence[Candidate]) -> tuple[str, ...]:
    total, callbacks = sum(each.size for each in members), sum(each.callback for each in members)
    return f"{len(members):,}", f"{callbacks:,}", f"{total:,}", f"{total / len(members):,.0f}"
