"""Folders of one run: removed at its end, and by a later run if it had no time to."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

_PID_FILE = "pid"


class RunFolder:
    """A fresh folder ``<home>/run/<kind>-…`` that belongs to this process.

    Its pid file is locked, and a lock ends with its process however that ends: an unlocked folder is a leftover,
    whoever has its pid by now.

    Attributes:
        path: the folder.
    """

    def __init__(self, home: Path, kind: str) -> None:
        root = home / "run"
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / ".lock"):
            _sweep(root)
            self.path = Path(mkdtemp(prefix=f"{kind}-", dir=root))
            self._pid_file = (self.path / _PID_FILE).open("w")
            self._pid_file.write(str(os.getpid()))
            self._pid_file.flush()
            fcntl.flock(self._pid_file, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Delete the folder and all in it; a second call does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._pid_file.close()

    def leave(self) -> None:
        """Leave it to be read until the next run starts."""
        self._pid_file.close()


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock between processes; waits for it as long as its holder lives."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(root: Path) -> None:
    for pid_file in root.glob(f"*/{_PID_FILE}"):
        with pid_file.open() as file:
            if _owner_is_gone(file):
                shutil.rmtree(pid_file.parent, ignore_errors=True)


def _owner_is_gone(pid_file: IO[str]) -> bool:
    try:
        fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
