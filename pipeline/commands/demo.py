"""``tallystream demo``: the whole pipeline on this machine, a dozen questions, every callback verified.

A second act shows what votes are for, with a toy model whose mistakes are designed in.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from pipeline.abacus.folder import NAME as ABACUS
from pipeline.client import RequestProducer, TopicFollower
from pipeline.commands.console import err, out, say
from pipeline.commands.demo_abacus import AbacusBoard
from pipeline.commands.demo_board import Board
from pipeline.commands.demo_questions import demo_requests
from pipeline.commands.demo_receiver import Receiver
from pipeline.commands.gateway_address import check_gateway, page_line
from pipeline.errors import ConfigError
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.settings import EngineName, Settings, load_settings
from pipeline.stack import AGENTS, GATEWAY, Stack, agent_specs, running_stack
from pipeline.supervisor import Supervisor
from pipeline.telemetry import now_ms
from pipeline.topics import DELIVERIES, PROGRESS, RESULTS, SAMPLES


def demo(
    model: Annotated[str, typer.Option(help="A path or a hub name; empty: SmolLM2-135M-Instruct.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the summary to this file.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the pipeline running until Ctrl-C.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that all requests together may take.")] = 900.0,
) -> None:
    """Run the pipeline on this machine, ask it a dozen questions and verify every callback.

    A second act asks Abacus, a toy model whose mistakes are designed in, some sums: single samples disagree, and
    the vote finds the answer.

    Exit codes: 0 every request ended, every callback was verified, nothing came twice; 1 otherwise.
    """
    started = time.monotonic()
    settings = load_settings(**({"model": model} if model else {}))
    others = tuple(agent for agent in AGENTS if agent != "worker")
    with (
        Receiver() as receiver,
        running_stack(settings, say, agents=others, env=receiver.agent_environment()) as stack,
    ):
        codec = make_codec(stack.settings)
        board = Board(demo_requests(receiver.url, now_ms()), receiver)
        with _worker(stack.settings) as worker:
            meanwhile = "the worker loads its model while they wait in their lanes"
            _play(stack, worker, codec, board, timeout, meanwhile)
            states = [*stack.supervisor.states, *worker.states]
        board.audit(stack.settings, codec)
        out.print(board.table())
        for line in board.problems():
            out.print(line, style="red", markup=False)
        summary = board.summary(time.monotonic() - started, states)
        out.print(board.verdict_line(), style="green" if summary["ok"] else "red")
        if summary["ok"]:
            second = AbacusBoard(now_ms())
            abacus = stack.settings.model_copy(update={"model": ABACUS})
            with _worker(abacus, {"TALLYSTREAM_ENGINE__NAME": EngineName.SLOTS}) as worker:
                meanwhile = "another worker loads Abacus, a toy that makes mistakes"
                _play(stack, worker, codec, second, timeout, meanwhile)
            out.print()
            out.print(second)
            out.print(second.verdict_line(), style="green" if second.complete() else "red")
            summary |= {
                "ok": second.complete(),
                "abacus": second.summary(),
                "seconds": round(time.monotonic() - started, 1),
            }
        if json_file is not None:
            json_file.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if keep:
            with _worker(stack.settings), _page(stack.settings):
                err.print(
                    f"the pipeline stays up on Kafka at {stack.settings.bootstrap} (Ctrl-C stops it); "
                    'try: tallystream ask "What is 7 + 5?"',
                    style="green",
                )
                _wait_for_interrupt()
    raise typer.Exit(0 if summary["ok"] else 1)


def _worker(settings: Settings, env: dict[str, str] | None = None) -> Supervisor:
    return Supervisor(agent_specs(settings, ("worker",), env or {}), say)


@contextmanager
def _page(settings: Settings) -> Generator[None]:
    """A gateway beside the pipeline; that there can be none is told, and no reason to stop."""
    try:
        check_gateway(settings)
    except ConfigError as error:
        say(error.message)
        yield
        return
    with Supervisor(agent_specs(settings, (GATEWAY,), {}), say):
        err.print(page_line(settings), style="green")
        yield


def _play(
    stack: Stack, worker: Supervisor, codec: Codec, board: Board | AbacusBoard, timeout: float, meanwhile: str
) -> None:
    """Ask a board's questions and follow the topics until it has its answers, or time is up."""
    follower = TopicFollower(stack.settings, codec, [SAMPLES, RESULTS, PROGRESS, DELIVERIES])
    producer = RequestProducer(stack.settings, codec)
    for request in board.requests:
        producer.send(request)
    producer.flush()
    say(f"{len(board.requests)} requests sent; {meanwhile}")
    deadline = time.monotonic() + timeout
    with Live(board, console=err, refresh_per_second=8, transient=True) as live:
        while not board.complete() and time.monotonic() < deadline and not _failed(stack, worker):
            for topic, event in follower.read(0.1):
                for line in board.note(topic, event):
                    if not err.is_terminal:
                        say(line)
            live.refresh()
    follower.close()


def _failed(stack: Stack, worker: Supervisor) -> str:
    return stack.supervisor.failed or worker.failed


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        say(f"stopping (process {os.getpid()}) …")
