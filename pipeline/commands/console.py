"""What every command shares: where it prints, and which Kafka it talks to."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from pipeline.errors import ConfigError
from pipeline.running import read_running
from pipeline.settings import Settings, load_settings

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(line: str) -> None:
    """One line about what goes on, on stderr, so that stdout stays for answers."""
    err.print(line, style="dim")


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
