"""Become a program that the kernel kills when the parent is gone: ``die_with_parent.py PARENT PROGRAM ARGUMENTS…``

Run by path, in an interpreter of its own. The child asks for this after it has become a program, not between
fork and exec: there, a copy of a process with threads can wait for ever for a lock that no thread of it holds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def become(parent: int, argv: Sequence[str]) -> None:
    """Ask for SIGKILL at the parent's end, then be ``argv``; an ignored signal would stay ignored in it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before its end was asked about
        os.kill(os.getpid(), signal.SIGKILL)
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execvp(argv[0], list(argv))


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
