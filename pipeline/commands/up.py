"""``tallystream up``: the whole pipeline on this machine, until Ctrl-C."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pipeline.commands.console import err, say
from pipeline.commands.gateway_address import check_gateway, page_line
from pipeline.errors import TallystreamError
from pipeline.settings import load_settings
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
    check_gateway(settings)
    with running_stack(settings, say, agents=agents) as stack:
        err.print(
            f'up, on Kafka at {stack.settings.bootstrap}; try: tallystream ask "What is 7 + 5?"',
            style="green",
        )
        err.print(page_line(settings), style="green")
        try:
            while not (failed := stack.supervisor.failed):
                time.sleep(0.5)
            raise TallystreamError(f"{failed} keeps failing; see its log")
        except (KeyboardInterrupt, SystemExit):
            say("stopping …")
