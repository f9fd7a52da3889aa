"""What every command shares: where it prints, and which Kafka it talks to."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

from pipeline.errors import ConfigError
from pipeline.running import read_running
from pipeline.settings import Settings, load_settings

_PIPED_WIDTH = 140
"""Columns of a table when nobody's terminal says how wide it is."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PIPED_WIDTH)


def say(line: str) -> None:
    """One line about what goes on, on stderr, so that stdout stays for answers."""
    err.print(line, style="dim", markup=False, soft_wrap=True)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on a line of stdout."""
    out.print(json.dumps(value, ensure_ascii=False), markup=False, soft_wrap=True)


def connected_settings(**overrides: Any) -> Settings:
    """Settings with a broker: TALLYSTREAM_BOOTSTRAP, or the pipeline that ``up`` keeps running here.

    Raises:
        ConfigError: neither is there; says what to do.
    """
    settings = load_settings(**overrides)
    if settings.bootstrap:
        return settings
    running = read_running(settings)
    if running is None:
        raise ConfigError(
            "no pipeline runs on this machine: start one with `tallystream up`, or set TALLYSTREAM_BOOTSTRAP"
        )
    return load_settings(**(overrides | running))
