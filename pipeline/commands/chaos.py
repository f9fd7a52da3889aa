"""``tallystream chaos``: kill everything, again and again, and audit what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Annotated

import typer
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from pipeline.chaos.guarantees import Broken
from pipeline.chaos.options import Options, Progress
from pipeline.chaos.run import run_chaos
from pipeline.commands.console import err, out, say
from pipeline.settings import load_settings

_EVERY = 10.0


def chaos(
    kills: Annotated[int, typer.Option(min=1, help="Processes to kill with SIGKILL.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the plan, the requests and the receiver.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    brokers: Annotated[int, typer.Option(help="Nodes of the local Kafka: 1 or 3.")] = 1,
    shards: Annotated[int, typer.Option(min=1, help="Shards of the topics.")] = 2,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests a second.")] = 10.0,
    pause: Annotated[
        float, typer.Option(min=0, help="Mean seconds from a recovery to the next fault.")
    ] = 1.0,
    calm: Annotated[float, typer.Option(min=0, help="Seconds without faults at the start.")] = 20.0,
    stuck_after: Annotated[
        float, typer.Option(min=1, help="Seconds without any movement at the end: the rest is stuck.")
    ] = 60.0,
    broken: Annotated[
        Broken | None, typer.Option(help="Take one guarantee away; then the audit must find something.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the counts to this file.")] = None,
    keep_logs: Annotated[Path | None, typer.Option(help="Keep the agents' logs in this folder.")] = None,
) -> None:
    """Kill agents and brokers at random while requests flow, then audit the topics.

    Real agents as processes (two batchers, aggregators and webhook agents, and the workers) with an engine that
    follows a script, on a Kafka of their own; with TALLYSTREAM_BOOTSTRAP on that one, which must be empty and is
    then not killed. The same seed makes the same plan. For every five kills one process is paused as well, some
    for so long that another takes over.

    Ctrl-C while faults are made ends them and audits what was done; a second one ends at once.

    Exit codes: 0 the audit found nothing and every kill was made; 1 otherwise, so also when a --broken run shows
    what it should; 2 something is missing or wrong; 130 Ctrl-C.
    """
    if brokers not in (1, 3):
        raise typer.BadParameter("1 or 3", param_hint="--brokers")
    options = Options(
        kills=kills,
        seed=seed,
        workers=workers,
        brokers=brokers,
        shards=shards,
        rate=rate,
        pause=pause,
        calm=calm,
        stuck_after=stuck_after,
        broken=broken,
        logs=keep_logs,
    )
    progress = Progress(options)
    with _shown(progress):
        report = run_chaos(load_settings(), options, say, progress)
    out.print(report.shown())
    if json_file is not None:
        json_file.write_text(json.dumps(report.json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    raise typer.Exit(0 if report.ok else 1)


@contextmanager
def _shown(progress: Progress) -> Generator[None]:
    """A line that follows the run: in place on a terminal, a new one now and then elsewhere."""
    if err.is_terminal:
        with Live(_Line(progress), console=err, refresh_per_second=4, transient=True):
            yield
        return
    done = Event()
    thread = Thread(target=_say_now_and_then, args=(progress, done.wait), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _say_now_and_then(progress: Progress, wait: Callable[[float], bool]) -> None:
    while not wait(_EVERY):
        say(str(progress))


class _Line:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._spinner, self._since = progress, Spinner("dots"), time.monotonic()

    def __rich__(self) -> Spinner:
        self._spinner.update(text=Text(f"{time.monotonic() - self._since:.0f} s  {self._progress}"))
        return self._spinner
