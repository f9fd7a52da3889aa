"""``tallystream up``: the whole pipeline on this machine, until Ctrl-C."""

from __future__ import annotations

import socket
import time
from typing import Annotated

import typer

from pipeline.commands.console import err, say
from pipeline.errors import ConfigError, TallystreamError
from pipeline.gateway.access import check_binding
from pipeline.gateway.key_file import keys_path, read_keys
from pipeline.settings import Settings, load_settings
from pipeline.stack import ROLES, running_stack


def up(
    model: Annotated[str, typer.Option(help="A path or a hub name; empty: SmolLM2-135M-Instruct.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
) -> None:
    """Start Kafka (if TALLYSTREAM_BOOTSTRAP names none), the topics and every agent; Ctrl-C stops them all."""
    settings = load_settings(**({"model": model} if model else {}))
    agents = [agent for agent in ROLES for _ in range(workers if agent == "worker" else 1)]
    if workers > settings.shards:
        say(
            f"{workers} workers share {settings.shards} shards, so some stay idle: set TALLYSTREAM_SHARDS={workers}"
        )
    _check_gateway(settings)
    with running_stack(settings, say, agents=agents) as stack:
        err.print(
            f'up, on Kafka at {stack.settings.bootstrap}; try: tallystream ask "What is 7 + 5?"',
            style="green",
        )
        if settings.gateway.port:
            err.print(f"the page: http://{settings.gateway.host}:{settings.gateway.port}/", style="green")
        try:
            while not (failed := stack.supervisor.failed):
                time.sleep(0.5)
            raise TallystreamError(f"{failed} keeps failing; see its log")
        except (KeyboardInterrupt, SystemExit):
            say("stopping …")


def _check_gateway(settings: Settings) -> None:
    """Find out now what the gateway would only say in its log.

    Raises:
        ConfigError: it would be open to a network without keys, or its address is taken.
    """
    check_binding(settings, keys=bool(read_keys(keys_path(settings))))
    gateway = settings.gateway
    try:
        with socket.create_server((gateway.host, gateway.port)):
            pass
    except OSError as error:
        raise ConfigError(
            f"the gateway can not listen on {gateway.host}:{gateway.port}: {error.strerror}; "
            "set TALLYSTREAM_GATEWAY__PORT to another one, or to 0 for a free one"
        ) from error
