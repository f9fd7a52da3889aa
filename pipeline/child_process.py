"""Children that never outlive this process and never see its terminal's Ctrl-C.

Each child leads its own session, so the parent decides when it stops. On Linux the kernel kills it when the
parent is gone, even by ``kill -9``. That signal fires when the *thread* that forked ends, so every fork is made
by one thread that lives as long as the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Loaded before any fork: a forked child of a threaded process should load nothing.
_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forker")

Child = subprocess.Popen[bytes]


def spawn(
    argv: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Child:
    """Start a child whose output is appended to ``log``.

    Args:
        env: added to this process's environment.

    Raises:
        OSError: the program can not be started.
    """
    return _forker.submit(_spawn, argv, log, {**os.environ, **(env or {})}, cwd).result()


def signal_group(child: Child, number: int) -> None:
    """Send a signal to the child and all that it started; nothing happens when none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def stop(child: Child, grace: float) -> int:
    """SIGTERM, up to ``grace`` seconds to end by itself, then SIGKILL; returns the exit status, reaped."""
    if child.poll() is None:
        signal_group(child, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    # Also when the child itself is gone: what it left running belongs to its group.
    signal_group(child, signal.SIGKILL)
    return child.wait()


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 when it is gone or the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def last_lines(log: Path, count: int, *, most_bytes: int = 16_384) -> str:
    """The end of a log file without the frames of Java stack traces; empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
            lines = file.read().decode(errors="replace").splitlines()
            return "\n".join([line for line in lines if not line.startswith("\tat ")][-count:])
    except OSError:
        return ""


def _spawn(argv: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None) -> Child:
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - does one system call
        )


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    libc = _libc
    if libc is None:
        return None

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before it was asked for
            os.kill(os.getpid(), signal.SIGKILL)

    return ask
