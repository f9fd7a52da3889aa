"""Children that never outlive this process and never see its terminal's Ctrl-C.

Each child leads its own session, so the parent decides when it stops. On Linux the kernel kills it when the
parent is gone, even by ``kill -9``. That signal fires when the *thread* that forked ends, so every fork is made
by one thread that lives as long as the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
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
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, "no such program", argv[0])
    with log.open("ab") as output:
        return subprocess.Popen(
            [*_dying_with_this_process(), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )


def _dying_with_this_process() -> list[str]:
    """What comes before a command; without ``site`` and the environment it starts in milliseconds."""
    if sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", str(_DIE_WITH_PARENT), str(os.getpid())]
