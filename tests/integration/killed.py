"""Commands that are killed before each call that their transactions make, until one gets through."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from pipeline.settings import Settings
from tests.e2e.commands import PATIENCE, environment

_KILLED_AT = """
import os, signal, sys
from pipeline.kafka import command_writer, transactional_producer as module

left, command_writer._MOST_UNITS = int(sys.argv.pop(1)), int(sys.argv.pop(1))
once, make, made = module.repeat, module.transactional_producer, []

def remembered(*arguments):
    made.append(make(*arguments))
    return made[-1]

def repeat(call, until):
    global left
    left -= 1
    if left == 0:
        made[-1].flush(30)
        os.kill(os.getpid(), signal.SIGKILL)
    once(call, until)

module.repeat, module.transactional_producer = repeat, remembered
from pipeline.cli import main
main()
"""
"""The command, killed before the nth call that a transaction makes; what was produced is in the log then."""


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment of a command that works on this pipeline."""
    return environment(
        TALLYSTREAM_BOOTSTRAP=settings.bootstrap,
        TALLYSTREAM_APP=settings.app,
        TALLYSTREAM_SHARDS=str(settings.shards),
    )


def killed_before_each_call(
    *argv: str, env: Mapping[str, str], lot: int
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Repeat a command, killed one call later each time; how it ended at last, and how often it was killed.

    Args:
        lot: how much it writes in one transaction.
    """
    kills = 0
    while True:
        run = subprocess.run(
            [sys.executable, "-c", _KILLED_AT, str(kills + 1), str(lot), *argv],
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if run.returncode != -9:
            return run, kills
        kills += 1
