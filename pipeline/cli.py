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
from pipeline.commands.console import err
from pipeline.commands.late_group import OPTIONS, LateGroup
from pipeline.errors import TallystreamError
from pipeline.settings import load_settings
from pipeline.stack import ROLES

EXIT_ERROR, EXIT_INTERRUPTED = 2, 130

app = typer.Typer(
    name="tallystream",
    cls=LateGroup,
    help="Several model samples, one vote, one durable answer.",
    no_args_is_help=True,
    **OPTIONS,
)


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
