"""``tallystream offsets``: how far the agents' groups have read, and setting that."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pipeline.commands.console import connected_settings, err, out, print_json
from pipeline.commands.moments import when
from pipeline.commands.offsets_view import group_line, group_table, move_table, offset_objects
from pipeline.offsets.groups import Groups
from pipeline.offsets.reset import (
    EFFECTS,
    REFUSED,
    Edge,
    Move,
    Target,
    Time,
    check_idle,
    chosen,
    moves,
)
from pipeline.settings import Settings
from pipeline.topics import READ_BY

offsets = typer.Typer(help="How far the agents have read.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option(help="Only in this topic.")]
Partition = Annotated[int | None, typer.Option(min=0, help="Only in this partition.")]


@offsets.callback()
def group() -> None:
    """How far the agents have read."""


@offsets.command()
def show(
    agent: Annotated[
        str | None, typer.Option("--agent", "--group", help=f"Only one: {', '.join(READ_BY)}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a partition.")] = False,
) -> None:
    """Show where the agents' groups stand, and who is in them.

    lag counts offsets, those of transactions' markers too: what has read everything may stand a little
    before the end. "finished ahead" are tasks of batches, or results, that are done though the offset waits for an
    older one: how many, and in how many records.

    Exit codes: 0 some group has committed something, 1 none has.
    """
    settings = connected_settings()
    roles = list(READ_BY) if agent is None else [_role(settings, agent)]
    groups = Groups(settings)
    found = [groups.read(role) for role in roles]
    for each in found:
        if as_json:
            for line in offset_objects(each):
                print_json(line)
        else:
            out.print(group_line(each))
            out.print(group_table(each))
            out.print()
    raise typer.Exit(0 if any(each.position for group in found for each in group.offsets) else 1)


@offsets.command()
def reset(
    agent: Annotated[
        str, typer.Option("--agent", "--group", help="batcher, worker or webhook; not the aggregator.")
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="TO",
            help="earliest, latest, a time (2h, 7d, 2026-05-01T12:00 UTC), or an offset of one partition.",
        ),
    ],
    topic: Topic = None,
    partition: Partition = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without, only say what would be done.")
    ] = False,
) -> None:
    """Set a group's offsets, while none of its agents runs. Says what it would do; --apply does it.

    What was finished above an offset is forgotten with it. Set back, work comes again: batcher: nothing is
    written twice; worker: samples whose deadline is not over are drawn again, and counted once; webhook:
    callbacks are sent again under the same webhook-id. Set forward, what is passed over is never done. To ask
    again what was asked, use replay.

    Exit codes: 0 it can be (or was) set, 2 a mistake, an agent that can not be set, a group that is in use, or
    Kafka is away.
    """
    settings = connected_settings()
    role = _role(settings, agent)
    if role in REFUSED:
        raise typer.BadParameter(REFUSED[role], param_hint="--agent")
    target = _target(to)
    groups = Groups(settings)
    group = groups.read(role)
    found = chosen(group, topic, partition)
    at_time = groups.at([each.place for each in found], target.ms) if isinstance(target, Time) else None
    planned = moves(found, target, at_time or {})
    out.print(move_table(planned))
    _say(role, planned)
    check_idle(group, found, settings.session_timeout_ms)
    wanted = {move.place: move.to for move in planned if not move.needless}
    if apply and wanted:
        groups.set(role, wanted)
    verb = "set" if apply else "would be set"
    err.print(f"{len(wanted)} of {len(planned)} offsets of {group.name} {verb}", style="green")
    if wanted and not apply:
        err.print("this was a dry run: add --apply to set them", style="dim")


def _say(role: str, planned: tuple[Move, ...]) -> None:
    effect = EFFECTS[role]
    if any(move.by < 0 or move.before.finished for move in planned):
        err.print(f"back: {effect.back}", style="yellow", soft_wrap=True)
    if any(move.by > 0 for move in planned):
        err.print(f"forward: {effect.forward}", style="yellow", soft_wrap=True)


def _role(settings: Settings, agent: str) -> str:
    role = agent.removeprefix(f"{settings.app}-")
    if role not in READ_BY:
        raise typer.BadParameter(f"{agent!r} is none of {', '.join(READ_BY)}", param_hint="--agent")
    return role


def _target(text: str) -> Target:
    if text in list(Edge):
        return Edge(text)
    if text.isascii() and text.isdigit():
        return int(text)
    return Time(when(text, time.time(), "--to"))
