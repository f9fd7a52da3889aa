"""The commands, each loaded when it is asked for: one of them needs little of what all of them need."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = (
    "demo",
    "up",
    "ask",
    "batch",
    "cancel",
    "watch",
    "list",
    "explain",
    "replay",
    "revote",
    "calibrate",
    "chaos",
    "bench",
    "doctor",
    "capacity",
    "topics",
    "dead-letters",
    "deliveries",
    "offsets",
    "keys",
)
"""In the order of the help; each is in the module of its name, under its name, but for those of ``_RENAMED``."""
_RENAMED = {"list": "list_tasks"}

OPTIONS: Mapping[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""Of every ``Typer`` here."""


class LateGroup(TyperGroup):
    """A group that has ``COMMANDS`` besides those that were added to it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else super().get_command(ctx, cmd_name)


def _load(name: str) -> Any:
    python = _RENAMED.get(name, name.replace("-", "_"))
    found: Any = getattr(import_module(f"pipeline.commands.{python}"), python)
    alone = typer.Typer(**OPTIONS)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    return typer.main.get_group(alone).commands[name]
