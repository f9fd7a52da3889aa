"""``tallystream revote``: what another policy would have made of the samples that were drawn."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pipeline.commands.console import connected_settings, err, out
from pipeline.commands.moments import moment, when
from pipeline.commands.show import one_line
from pipeline.events import Result
from pipeline.kafka.connect import make_codec
from pipeline.replay.recast import Recast
from pipeline.replay.revote import Plan, Range, Revote
from pipeline.replay.revote_policy import revote_policy


def revote(
    since: Annotated[
        str, typer.Option("--from", metavar="T", help="Asked since then: 2h, 7d, or 2026-05-01T12:00 (UTC).")
    ],
    until: Annotated[
        str, typer.Option("--to", metavar="T", help="Asked before then, written likewise; 0s is now.")
    ] = "0s",
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='JSON, e.g. {"rule": "majority"}; without, the settings\' policy.'),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Publish the new revisions; without, only say what would change.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, help="Requests at most, as they come on the topic; all are held in memory.")
    ] = 10_000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a changed answer.")] = False,
) -> None:
    """Take votes again from their samples, without a model, and show which answers another policy changes.

    The file may hold every field of the settings' section vote (confidence, min_share, calibration …) and the
    weights rule, share_weight and temperature. --apply publishes a new revision of each result whose
    answer or state changes; callbacks go out for it. It can be stopped and repeated: nothing is published twice.

    Exit codes: 0 done, 1 there is no finished request in this time, 2 a mistake, or Kafka is away.
    """
    now = time.time()
    asked = Range(when(since, now, "--from"), when(until, now, "--to"), limit)
    if asked.since >= asked.until:
        raise typer.BadParameter(f"{until} is not after {since}", param_hint="--to")
    settings = connected_settings()
    chosen = revote_policy(settings, policy)
    action = Revote(settings, make_codec(settings, writes=(Result,) if apply else ()), chosen)
    with err.status("reading samples …") as status:
        plan = action.apply(asked, status.update) if apply else action.plan(asked, status.update)
    if as_json:
        for each in plan.changed:
            out.print(json.dumps(_object(each), ensure_ascii=False), markup=False, soft_wrap=True)
    elif plan.changed:
        out.print(_table(plan.changed))
    _report(plan, applied=apply)
    raise typer.Exit(0 if plan.recast else 1)


def _table(changed: Sequence[Recast]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("id", "mode", "was", "would be", "why"):
        table.add_column(name, overflow="fold")
    for each in changed:
        before, after = each.published, each.now
        cells = (before.request_id, before.mode.value, _outcome(before), _outcome(after), each.why)
        table.add_row(*(Text("".join(c if c.isprintable() else "\ufffd" for c in cell)) for cell in cells))
    return table


def _outcome(result: Result) -> str:
    return f"— ({result.status.value})" if result.answer is None else one_line(result.answer, 60)


def _object(each: Recast) -> dict[str, object]:
    before, after = each.published, each.now
    return {
        "request_id": before.request_id,
        "run": before.run,
        "revision": after.revision,
        "was": {"status": before.status, "answer": before.answer, "confidence": before.confidence},
        "now": {"status": after.status, "answer": after.answer, "confidence": after.confidence},
        "why": each.why,
    }


def _report(plan: Plan, *, applied: bool) -> None:
    count = len(plan.changed)
    verb = "changed and published" if applied else "would change"
    parts = [
        f"{len(plan.recast)} votes taken again",
        f"{count} {'answer' if count == 1 else 'answers'} {verb}",
    ]
    if rescored := sum(each.rescored for each in plan.recast):
        parts.append(f"{rescored} keep their answer with another confidence")
    if plan.unfinished:
        parts.append(f"{plan.unfinished} left out: no final result (still open, or older than a day)")
    if plan.programs:
        parts.append(f"{plan.programs} left out: programs, which would have to be run again")
    if plan.without_samples:
        parts.append(f"{plan.without_samples} left out: their samples are deleted")
    err.print(", ".join(parts), style="green" if plan.recast else "yellow", soft_wrap=True)
    if plan.more is not None:
        err.print(f"there are more: go on with --from {moment(plan.more)}", style="yellow")
    if count and not applied:
        err.print("this was a dry run: add --apply to publish", style="dim")
