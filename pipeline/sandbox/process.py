"""One confined process: started, ended with all that it started, waited for."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pipeline.fusion.code_verdict import CodeLimits, CodeReason
from pipeline.sandbox.bundle import BOOTSTRAP, Step, pack

_START_SECONDS = 20.0
_END_SECONDS = 5.0
_LIMITED, _KILLED = 128 + signal.SIGXCPU, 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended.

    Attributes:
        status: exit status; 128 + the signal's number when a signal ended it.
        seconds: of wall time from its start.
    """

    status: int
    seconds: float


class Confined:
    """A sandbox with one interpreter in it.

    It is a process of ours, the namespace's first process under it, and the interpreter under that: when the first
    process is killed, the kernel kills everything in the namespace, however it was started.
    """

    def __init__(
        self,
        command: Sequence[str],
        steps: Sequence[Step],
        descriptors: Sequence[int],
        *,
        info_flag: bool,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        """Start ``command``, which ends with an interpreter's options.

        Args:
            info_flag: the command is bubblewrap, which says the first process's id itself.

        Raises:
            OSError: it can not be started.
        """
        self._begun = time.monotonic()
        bundle = pack(steps)
        info, info_write = os.pipe()
        try:
            flags = ["--info-fd", str(info_write)] if info_flag else []
            argv = [command[0], *flags, *command[1:], "-c", BOOTSTRAP, str(bundle.fileno()), str(info_write)]
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.DEVNULL if stderr is None else stderr,
                pass_fds=(bundle.fileno(), info_write, *descriptors),
                env={"PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
        except BaseException:
            os.close(info)
            raise
        finally:
            bundle.close()
            os.close(info_write)
        self._first = self._first_process(info)
        self._ending: Ending | None = None

    def _first_process(self, info: int) -> int | None:
        """A handle of the namespace's first process: an id alone could be another's by the time it is used."""
        text = b""
        try:
            while select.select([info], [], [], _START_SECONDS)[0]:
                part = os.read(info, 4096)
                text += part
                with suppress(ValueError):
                    return os.pidfd_open(int(json.loads(text)["child-pid"]))
                if not part:
                    return None
        except OSError:
            return None
        finally:
            os.close(info)
        return None

    def end(self) -> Ending:
        """Kill what still runs, wait for it, and say how it had ended; the same answer when called again."""
        if self._ending is None:
            if self._first is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
            self._ending = self._wait()
            if self._first is not None:
                # Bubblewrap leaves it to the next ancestor that takes orphans, which may be this process.
                with suppress(ChildProcessError):
                    os.waitid(os.P_PIDFD, self._first, os.WEXITED)
                os.close(self._first)
        return self._ending

    def _wait(self) -> Ending:
        # The outer process ends by itself when the first one has, and is killed only if it does not.
        outer = os.pidfd_open(self._process.pid)
        try:
            if not select.select([outer], [], [], _END_SECONDS)[0]:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        finally:
            os.close(outer)
        code = self._process.wait()
        return Ending(code if code >= 0 else 128 - code, time.monotonic() - self._begun)


def reason_of(ending: Ending, limits: CodeLimits, otherwise: str) -> tuple[CodeReason, str]:
    """Reason and sentence of an end that nobody announced."""
    # A program that ignores the limit's signal is killed by the next one, which it can also send itself, but no sooner.
    killed = ending.status == _KILLED and ending.seconds > limits.cpu_seconds
    if ending.status == _LIMITED or killed:
        return CodeReason.TIMEOUT, f"used more than {limits.cpu_seconds} s of processor time"
    if ending.status > 128 and ending.status != _KILLED:
        return CodeReason.ERROR, f"{otherwise} (signal {ending.status - 128})"
    return CodeReason.ERROR, otherwise
