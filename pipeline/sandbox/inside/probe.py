"""Whether the boundary holds: asked once before anything is run in it."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipeline.sandbox.inside import jail


def main(job: dict[str, Any]) -> None:
    """Write ``holds`` to the job's ``report`` if nothing can be reached from here, else what can be."""
    jail.enter(job["limits"])
    os.write(job["report"], "; ".join(_leaks(job["outside"])).encode() or b"holds")


def _leaks(outside: str) -> list[str]:
    found: list[str] = []
    if os.environ:
        found.append("it has an environment")
    if Path(outside).exists():
        found.append(f"it sees {outside}")
    try:
        socket.socket()
        found.append("it can open a socket")
    except PermissionError:
        pass
    try:
        subprocess.run([sys.executable, "-c", ""], check=False)
        found.append("it can start a process")
    except PermissionError:
        pass
    try:
        Path("/written").touch()
        found.append("it can write outside its scratch folder")
    except OSError as error:
        if error.errno != errno.EROFS:
            found.append(f"its root is not read-only ({error.strerror})")
    return found
