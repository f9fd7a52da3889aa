"""``tallystream keys``: who may call the gateway. A running one takes a change at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from pipeline.commands.console import err, out, print_json
from pipeline.commands.moments import time_of
from pipeline.events import PRIORITIES
from pipeline.gateway.key_file import changed_keys, keys_path, read_keys
from pipeline.gateway.keys import KeyLimits, StoredKey, new_key
from pipeline.settings import load_settings
from pipeline.telemetry import now_ms

_LONGEST_TENANT = 128
_ALL = f"0-{PRIORITIES - 1}"
keys = typer.Typer(help="API keys of the gateway.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@keys.callback()
def group() -> None:
    """API keys of the gateway."""


@keys.command()
def add(
    tenant: Annotated[str, typer.Option(help="Whose tasks it asks and sees.")],
    admin: Annotated[
        bool, typer.Option("--admin", help="Sees every tenant's tasks, and dead letters.")
    ] = False,
    rate: Annotated[float | None, typer.Option(min=0.01, help="Calls in a second.")] = None,
    waiting: Annotated[
        int | None, typer.Option(min=1, help="Tasks of its tenant that have not ended.")
    ] = None,
    largest_n: Annotated[int | None, typer.Option(min=1, help="Samples of one task.")] = None,
    priorities: Annotated[str, typer.Option(help="That it may ask for, as 2-5 or 3,5.")] = _ALL,
) -> None:
    """Make a key and print it. It is shown this once: only a digest is kept."""
    if not (0 < len(tenant) <= _LONGEST_TENANT and tenant.isprintable()):
        raise typer.BadParameter(f"is 1 to {_LONGEST_TENANT} printable characters", param_hint="--tenant")
    limits = KeyLimits(rate, waiting, largest_n, _priorities(priorities))
    path = keys_path(load_settings())
    with changed_keys(path) as kept:
        stored, text = new_key(tenant, now_ms(), admin=admin, limits=limits)
        kept.append(stored)
    err.print(f"key {stored.id} of {tenant}, shown this once (its digest is in {path}):", markup=False)
    print(text)


@keys.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, without their secrets. Exit codes: 0 there are some, 1 there are none."""
    found = sorted(read_keys(keys_path(load_settings())), key=lambda key: (key.tenant, key.created_at))
    if as_json:
        for key in found:
            print_json(_object(key))
    elif found:
        out.print(_table(found))
    raise typer.Exit(0 if found else 1)


@keys.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID", help="As `keys list` shows it.")]) -> None:
    """Take a key away. Exit codes: 0 it was there, 1 it was not."""
    with changed_keys(keys_path(load_settings())) as kept:
        found = [key for key in kept if key.id == key_id]
        kept[:] = [key for key in kept if key.id != key_id]
    err.print(f"key {key_id} {'is revoked' if found else 'is not there'}", markup=False)
    raise typer.Exit(0 if found else 1)


def _priorities(text: str) -> tuple[int, ...]:
    """``2-5``, ``3`` or ``0,3-4`` as numbers."""
    chosen: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            chosen.update(range(int(first), int(last or first) + 1))
    except ValueError:
        chosen = set()
    if not chosen or not chosen <= set(range(PRIORITIES)):
        raise typer.BadParameter(f"{text!r} is not like {_ALL} or 3,5", param_hint="--priorities")
    return tuple(sorted(chosen))


def _object(key: StoredKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "digest"}


def _table(found: list[StoredKey]) -> Table:
    table = Table("id", "tenant", "admin", "calls/s", "waiting", "largest n", "priorities", "made", box=None)
    for key in found:
        limits = key.limits
        numbers = (limits.rate, limits.waiting, limits.largest_n)
        table.add_row(
            key.id,
            key.tenant,
            "yes" if key.admin else "",
            *("—" if number is None else f"{number:g}" for number in numbers),
            ",".join(map(str, limits.priorities)),
            time_of(key.created_at),
        )
    return table
