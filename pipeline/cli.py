"""The command line ``tallystream``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from pipeline import __version__
from pipeline.commands.ask import ask
from pipeline.commands.batch import batch
from pipeline.commands.bench import bench
from pipeline.commands.calibrate import calibrate
from pipeline.commands.cancel import cancel
from pipeline.commands.chaos import chaos
from pipeline.commands.console import err
from pipeline.commands.dead_letters import dead_letters
from pipeline.commands.deliveries import deliveries
from pipeline.commands.demo import demo
from pipeline.commands.doctor import doctor
from pipeline.commands.explain import explain
from pipeline.commands.keys import keys
from pipeline.commands.list_tasks import list_tasks
from pipeline.commands.offsets import offsets
from pipeline.commands.replay import replay
from pipeline.commands.revote import revote
from pipeline.commands.topics import topics
from pipeline.commands.up import up
from pipeline.commands.watch import watch
from pipeline.errors import TallystreamError
from pipeline.settings import load_settings
from pipeline.stack import ROLES

EXIT_ERROR, EXIT_INTERRUPTED = 2, 130

app = typer.Typer(
    name="tallystream",
    help="Several model samples, one vote, one durable answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo)
app.command()(up)
app.command()(ask)
app.command()(batch)
app.command()(cancel)
app.command()(watch)
app.command(name="list")(list_tasks)
app.command()(explain)
app.command()(replay)
app.command()(revote)
app.command()(calibrate)
app.command()(chaos)
app.command()(bench)
app.command()(doctor)
app.add_typer(topics, name="topics")
app.add_typer(dead_letters, name="dead-letters")
app.add_typer(deliveries, name="deliveries")
app.add_typer(offsets, name="offsets")
app.add_typer(keys, name="keys")


@app.command()
def agent(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(ROLES)}.")],
    slot: Annotated[int, typer.Option(min=0, help="Which of several of its role on this Kafka.")] = 0,
) -> None:
    """Run one agent in the foreground. Needs TALLYSTREAM_BOOTSTRAP."""
    if name not in ROLES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(ROLES)}", param_hint="NAME")
    if not load_settings().bootstrap:
        raise typer.BadParameter("set TALLYSTREAM_BOOTSTRAP to Kafka's host:port", param_hint="NAME")
    os.environ["TALLYSTREAM_SLOT"] = str(slot)
    os.execv(sys.executable, [sys.executable, "-m", f"agents.{name}"])


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Several model samples, one vote, one durable answer."""
    if version:
        print(f"tallystream {__version__}")
        raise typer.Exit


def _terminate(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Run a command; a user's mistake is one line, never a traceback; SIGTERM cleans up as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _terminate)
    logging.getLogger("rdkafka").setLevel(logging.CRITICAL)  # a command reports errors itself
    try:
        app()
    except TallystreamError as error:
        err.print(f"error: {error.message}", style="red", markup=False)
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
