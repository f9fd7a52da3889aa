"""Processes that wait for a word before they write, so that a test can pause them first."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.settings import Settings
from tests.integration.asker import PATIENCE

Waiting = subprocess.Popen[str]
Start = Callable[..., Waiting]


@contextmanager
def waiting_processes(settings: Settings, module: str) -> Iterator[Start]:
    """Gives a function that starts the module with arguments and returns when it is ready to write."""
    started: list[Waiting] = []
    env = {"TALLYSTREAM_BOOTSTRAP": settings.bootstrap, "TALLYSTREAM_APP": settings.app}

    def start(*arguments: str, **more: str) -> Waiting:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | env | more,
        )
        started.append(process)
        assert heard(process) == "ready"
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


def heard(process: Waiting) -> str:
    """The next line that it says; it says one at a time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, "it says nothing"
    return process.stdout.readline().strip()


def pause(process: Waiting) -> None:
    process.send_signal(signal.SIGSTOP)


def wake(process: Waiting) -> str:
    """Continue a paused process and let it write; returns what it says came of it."""
    process.send_signal(signal.SIGCONT)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    return heard(process)
