"""Running the command line as a person does: as a process, with signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 400.0


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}


def tallystream(*argv: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *argv],
        env=dict(env) if env else environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


class Session:
    """A command that runs until it is stopped; its output goes to a file that can be read meanwhile."""

    def __init__(self, *argv: str, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.cli", *argv],
                env=dict(env) if env else environment(),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def says(self, text: str) -> None:
        """Wait until the output holds this text."""
        self.until(lambda: text in self.log.read_text(), f"{text!r}")

    def until(self, done, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert self.process.poll() is None, f"ended early:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"still waiting for {what}:\n{self.log.read_text()}"
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Signal it as a terminal does, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def descendants(pid: int) -> set[int]:
    """Every process below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that still run; a zombie does not."""
    running: set[int] = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(pid)
    return running
