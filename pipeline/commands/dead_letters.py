"""``tallystream dead-letters``: see what could not be handled, and send it again when the cause is mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from pipeline.commands.console import connected_settings, err, out, print_json
from pipeline.commands.moments import period, time_of
from pipeline.commands.show import cell, grid, one_line
from pipeline.errors import DecodeError
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import PREFIX, Source
from pipeline.replay.letters import Letter, Selection, find, place_named
from pipeline.replay.resend import Plan, Planned, Replay

dead_letters = typer.Typer(help="Records that could not be handled.", no_args_is_help=True)

_DUMPED = 4_096
"""Bytes of a value that is not readable; more helps nobody in a terminal."""

Code = Annotated[str | None, typer.Option(help="Only letters with this error code.")]
Stage = Annotated[str | None, typer.Option(help="Only from this hop: batcher, worker, aggregator, webhook.")]
Topic = Annotated[str | None, typer.Option(help="Only records that came from this topic.")]
Key = Annotated[str | None, typer.Option(help="Only records with this key.")]
Since = Annotated[str | None, typer.Option(help="Parked since then: 2h, 7d, or 2026-05-01T12:00 (UTC).")]
Until = Annotated[str | None, typer.Option(help="Parked before then, written likewise.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest first.")]


@dead_letters.callback()
def group() -> None:
    """Records that could not be handled."""


@dead_letters.command("list")
def list_letters(
    code: Code = None,
    stage: Stage = None,
    topic: Topic = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List dead letters, the oldest first.

    Exit codes: 0 there are some, 1 there are none.
    """
    selection = _selection(code, stage, topic, key, since, until)
    settings = connected_settings()
    found = [item.letter for item in Replay(settings, make_codec(settings)).survey(selection)]
    shown = found[:limit]
    if as_json:
        for letter in shown:
            print_json(_object(letter))
    elif shown:
        out.print(_table(shown))
    replayed = sum(letter.replayed_at is not None for letter in found)
    err.print(f"{len(shown)} of {_letters(len(found))}, {replayed} replayed", style="dim")
    raise typer.Exit(0 if shown else 1)


@dead_letters.command()
def show(
    letter_id: Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="As list names it.")],
) -> None:
    """Show one dead letter: the cause, its headers, and its bytes, decoded if they can be.

    Exit codes: 0 it is there, 1 it is not.
    """
    if (place := place_named(letter_id)) is None:
        raise typer.BadParameter(f"{letter_id!r} is no id; it looks like 0:17", param_hint="PARTITION:OFFSET")
    settings = connected_settings()
    found = find(settings, place)
    if found is None:
        err.print(
            f"no dead letter {letter_id}; `tallystream dead-letters list` names what is there", style="yellow"
        )
        raise typer.Exit(1)
    _show(*found, make_codec(settings))


@dead_letters.command()
def replay(
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without, only say what would be done.")
    ] = False,
    code: Code = None,
    stage: Stage = None,
    topic: Topic = None,
    key: Key = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
) -> None:
    """Send dead letters again to where they belong. Says what it would do; --apply does it.

    A letter is sent once: a replay that was stopped or killed is repeated, and goes on with the rest. Letters
    of code wrong_partition go to the right partition, all others to where they came from.

    Exit codes: 0 all can be (or were) sent, 1 some can not.
    """
    selection = _selection(code, stage, topic, key, since, until)
    settings = connected_settings()
    action = Replay(settings, make_codec(settings))
    if apply:
        with err.status("reading dead-letters …") as status:
            plan = action.apply(
                selection,
                limit,
                lambda plan, sent: status.update(f"{sent} of {len(plan.sendable)} sent …"),
            )
    else:
        plan = action.plan(selection, limit)
    _report(plan, applied=apply)
    raise typer.Exit(1 if len(plan.sendable) < len(plan.letters) else 0)


def _report(plan: Plan, *, applied: bool) -> None:
    if plan.letters:
        out.print(_plan_table(plan.letters))
    left_out = len(plan.letters) - len(plan.sendable)
    parts = [f"{_letters(len(plan.sendable))} {'sent again' if applied else 'would be sent again'}"]
    parts += [f"{left_out} can not be"] if left_out else []
    parts += [f"{plan.replayed} replayed before"] if plan.replayed else []
    err.print(", ".join(parts), style="yellow" if left_out else "green")
    if plan.sendable and not applied:
        err.print("this was a dry run: add --apply to send", style="dim")


def _plan_table(items: Sequence[Planned]) -> Table:
    table = grid("id", "code", "key", "from", "to")
    for item in items:
        to = f"{item.target[0]}[{item.target[1]}]" if item.target else f"— {item.reason}"
        letter = item.letter
        cells = letter.id, letter.cause.code, _key(letter.key), letter.origin, to
        table.add_row(*map(cell, cells))
    return table


def _table(found: Sequence[Letter]) -> Table:
    names = ("id", "parked", "code", "stage", "from", "key", "bytes", "tries", "replayed", "message")
    table = grid(*names, right=("bytes", "tries"))
    for letter in found:
        cause = letter.cause
        cells = (
            letter.id,
            time_of(letter.parked_at),
            cause.code,
            cause.stage,
            letter.origin,
            _key(letter.key),
            f"{letter.size:,}",
            str(cause.attempts),
            "" if letter.replayed_at is None else time_of(letter.replayed_at),
            one_line(cause.message, 80),
        )
        table.add_row(*map(cell, cells))
    return table


def _show(letter: Letter, source: Source, codec: Codec) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    facts = {
        "id": letter.id,
        "parked": time_of(letter.parked_at),
        "replayed": "no" if letter.replayed_at is None else time_of(letter.replayed_at),
        "first seen": time_of(letter.cause.first_seen),
    }
    for name, text in facts.items():
        table.add_row(name, text)
    for name, value in source.headers:
        style = "cyan" if name.startswith(PREFIX) else None
        table.add_row(cell(name), cell("null" if value is None else _text(value)), style=style)
    table.add_row("key", cell("null" if source.key is None else _text(source.key)))
    out.print(table)
    out.print()
    out.print(_value(source.value, codec), markup=False, soft_wrap=True)


def _value(value: bytes | None, codec: Codec) -> str:
    if value is None:
        return "the value is null"
    if not value:
        return "the value has no bytes"
    try:
        event = codec.decode(value)
    except DecodeError:
        return _text(value) if _readable(value) else _dump(value)
    kind = type(event).__name__
    return f"{kind}\n{msgspec.json.format(msgspec.json.encode(event), indent=2).decode()}"


def _text(value: bytes) -> str:
    return value.decode() if _readable(value) else f"0x{value.hex()}"


def _readable(value: bytes) -> bool:
    try:
        return all(char.isprintable() or char in "\n\t\r" for char in value.decode())
    except UnicodeDecodeError:
        return False


def _dump(value: bytes) -> str:
    lines: list[str] = []
    for start in range(0, min(len(value), _DUMPED), 16):
        row = value[start : start + 16]
        printable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {printable}")
    if len(value) > _DUMPED:
        lines.append(f"… {len(value) - _DUMPED:,} more bytes")
    return "\n".join(lines)


def _object(letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "parked_at": letter.parked_at,
        "replayed_at": letter.replayed_at,
        "key": None if letter.key is None else letter.key.decode("utf-8", "replace"),
        "bytes": letter.size,
        **asdict(letter.cause),
    }


def _selection(
    code: str | None,
    stage: str | None,
    topic: str | None,
    key: str | None,
    since: str | None,
    until: str | None,
) -> Selection:
    return Selection(code, stage, topic, key, *period(since, until))


def _key(key: bytes | None) -> str:
    return "null" if key is None else one_line(_text(key), 40)


def _letters(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count} dead letters"
