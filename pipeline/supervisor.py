"""Keeps processes running: restarts what ends, gives up on what keeps failing, leaves no orphan.

One thread waits for each child, so it works the same under a blocking command and an event loop (where ``stop``
belongs on a thread: it waits). The children die with this process, whatever ends it.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.child_process import Child, last_lines, resident_bytes, signal_group, spawn
from pipeline.run_folder import RunFolder
from pipeline.settings import current_settings

_LOG_LINES = 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run; ``env`` is added to this process's environment."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a process that ended is started again. All durations in seconds."""

    first_delay: float = 0.5
    factor: float = 2.0
    most_delay: float = 15.0
    healthy_after: float = 20.0
    """A process that ran so long starts from the first delay again."""
    give_up_after: int = 12
    """So many ends in a row, each before it was healthy, and it is not started again: more than the nine that three
    records in a row can cause before they are parked."""

    def delay(self, failures: int) -> float:
        """The wait after so many quick ends in a row (at least 1)."""
        return min(self.most_delay, self.first_delay * self.factor ** (failures - 1))


@dataclass(frozen=True, slots=True)
class Exit:
    """One end of one process; a negative status is the signal that ended it."""

    name: str
    pid: int
    status: int
    uptime: float


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A look at one process; ``pid`` is ``None`` between two starts and after the last."""

    name: str
    pid: int | None
    restarts: int
    resident_bytes: int
    log: Path


class Supervisor:
    """Runs processes until ``stop``; a context manager.

    Args:
        folder: where each process's output goes, one ``<name>.log`` each; by default a folder of this run, kept
            until the next run starts.
        grace: seconds that processes have to end by themselves at ``stop``.
        on_exit: called on another thread for each end that ``stop`` did not cause.
    """

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        say: Say,
        *,
        folder: Path | None = None,
        policy: RestartPolicy = RestartPolicy(),
        grace: float = 10.0,
        on_exit: Callable[[Exit], None] | None = None,
    ) -> None:
        self._specs = specs
        self._say = say
        self._folder = folder
        self._policy = policy
        self._grace = grace
        self._on_exit = on_exit
        self._stopping = threading.Event()
        self._run_folder: RunFolder | None = None
        self._watched: list[_Watched] = []
        self._threads: list[threading.Thread] = []

    @property
    def failed(self) -> str:
        """The name of a process that was given up, empty if none was."""
        return next((watched.spec.name for watched in self._watched if watched.gave_up), "")

    @property
    def states(self) -> list[ProcessState]:
        return [watched.state() for watched in self._watched]

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run now, by name."""
        return {state.name: state.pid for state in self.states if state.pid is not None}

    def start(self) -> None:
        """Start all processes; returns without waiting for what they do."""
        logs = self._log_folder()
        self._watched = [_Watched(spec, logs / f"{spec.name}.log") for spec in self._specs]
        for watched in self._watched:
            thread = threading.Thread(
                target=self._keep_running, args=(watched,), name=f"watch {watched.spec.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """SIGTERM to all, SIGKILL to what is left after the grace period; all are reaped when it returns."""
        self._stopping.set()
        deadline = time.monotonic() + self._grace
        try:
            for watched in self._watched:
                watched.signal(signal.SIGTERM)
            for watched in self._watched:
                watched.wait(deadline - time.monotonic())
        finally:  # also when a second Ctrl-C cuts the wait short
            for watched in self._watched:
                watched.signal(signal.SIGKILL)
            for thread in self._threads:
                thread.join()
            if self._run_folder:
                self._run_folder.leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _log_folder(self) -> Path:
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            return self._folder
        self._run_folder = RunFolder(current_settings().home, "agents")
        return self._run_folder.path

    def _keep_running(self, watched: _Watched) -> None:
        try:
            self._restart_until_stopped(watched)
        except OSError as error:  # no such program: another try can not help
            watched.gave_up = True
            self._say(f"{watched.spec.name} can not be started: {error}")

    def _restart_until_stopped(self, watched: _Watched) -> None:
        failures = 0
        while (child := watched.start(self._stopping)) is not None:
            began = time.monotonic()
            status = child.wait()
            # What it started itself would otherwise meet its successor.
            signal_group(child, signal.SIGKILL)
            if self._stopping.is_set():
                return
            ended = Exit(watched.spec.name, child.pid, status, time.monotonic() - began)
            failures = 1 if ended.uptime >= self._policy.healthy_after else failures + 1
            watched.gave_up = failures >= self._policy.give_up_after
            self._report(ended, watched, failures)
            if watched.gave_up or self._stopping.wait(self._policy.delay(failures)):
                return

    def _report(self, ended: Exit, watched: _Watched, failures: int) -> None:
        what = f"{ended.name} ended {_how(ended.status)} after {ended.uptime:.1f} s"
        if watched.gave_up:
            log = last_lines(watched.log, _LOG_LINES)
            self._say(f"{what}, {failures} times in a row: given up. The end of {watched.log}:\n{log}")
        else:
            self._say(f"{what}; starting it again in {self._policy.delay(failures):.1f} s")
        if self._on_exit:
            self._on_exit(ended)


class _Watched:
    """One process through all its starts."""

    def __init__(self, spec: ProcessSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.gave_up = False
        self._starts = 0
        self._child: Child | None = None
        self._lock = threading.Lock()

    def start(self, stopping: threading.Event) -> Child | None:
        """Start it, unless a stop came first: under one lock, so that no stop misses a child that is being born."""
        with self._lock:
            if stopping.is_set():
                return None
            self._child = spawn(self.spec.argv, self.log, env=self.spec.env)
            self._starts += 1
            return self._child

    def signal(self, number: int) -> None:
        with self._lock:
            if self._child and self._child.returncode is None:
                signal_group(self._child, number)

    def wait(self, timeout: float) -> None:
        """Wait until it has ended, at most ``timeout`` seconds."""
        if self._child:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(max(0.0, timeout))

    def state(self) -> ProcessState:
        child = self._child
        pid = child.pid if child and child.returncode is None else None
        return ProcessState(
            self.spec.name, pid, max(0, self._starts - 1), resident_bytes(pid) if pid else 0, self.log
        )


def _how(status: int) -> str:
    if status >= 0:
        return f"with exit code {status}"
    with suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"
