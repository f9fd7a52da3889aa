"""``tallystream demo``: the whole pipeline on this machine, a dozen questions, every callback verified."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from pipeline.client import RequestProducer, TopicFollower
from pipeline.commands.console import err, out, say
from pipeline.commands.demo_board import Board
from pipeline.commands.demo_questions import demo_requests
from pipeline.commands.demo_receiver import Receiver
from pipeline.kafka.connect import make_codec
from pipeline.settings import load_settings
from pipeline.stack import running_stack
from pipeline.telemetry import now_ms
from pipeline.topics import DELIVERIES, PROGRESS, RESULTS, SAMPLES


def demo(
    model: Annotated[str, typer.Option(help="A path or a hub name; empty: SmolLM2-135M-Instruct.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the summary to this file.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the pipeline running until Ctrl-C.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that all requests together may take.")] = 900.0,
) -> None:
    """Run the pipeline on this machine, ask it a dozen questions and verify every callback.

    Exit codes: 0 every request ended, every callback was verified, nothing came twice; 1 otherwise.
    """
    started = time.monotonic()
    settings = load_settings(**({"model": model} if model else {}))
    with Receiver() as receiver, running_stack(settings, say, env=receiver.agent_environment()) as stack:
        codec = make_codec(stack.settings)
        follower = TopicFollower(stack.settings, codec, [SAMPLES, RESULTS, PROGRESS, DELIVERIES])
        producer = RequestProducer(stack.settings, codec)
        requests = demo_requests(receiver.url, now_ms())
        board = Board(requests, receiver)
        for request in requests:
            producer.send(request)
        producer.flush()
        say(f"{len(requests)} requests sent; the worker loads its model while they wait in their lanes")
        deadline = time.monotonic() + timeout
        with Live(board, console=err, refresh_per_second=8, transient=True) as live:
            while not board.complete() and time.monotonic() < deadline and not stack.supervisor.failed:
                for topic, event in follower.read(0.1):
                    for line in board.note(topic, event):
                        if not err.is_terminal:
                            say(line)
                live.refresh()
        board.audit(stack.settings, codec)
        follower.close()
        summary = board.summary(time.monotonic() - started, stack.supervisor)
        out.print(board.table())
        for line in board.problems():
            out.print(line, style="red", markup=False)
        out.print(board.verdict_line(), style="green" if summary["ok"] else "red")
        if json_file is not None:
            json_file.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if keep:
            err.print(
                f"the pipeline stays up on Kafka at {stack.settings.bootstrap} (Ctrl-C stops it); "
                'try: tallystream ask "What is 7 + 5?"',
                style="green",
            )
            _wait_for_interrupt()
    raise typer.Exit(0 if summary["ok"] else 1)


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        say(f"stopping (process {os.getpid()}) …")
