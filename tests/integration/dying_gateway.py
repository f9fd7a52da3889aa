"""A gateway that kills itself between Kafka's acknowledgement and its answer, once a file: ``dying_gateway FILE``."""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path

from pipeline.gateway.intake import Accepted, Intake
from pipeline.kafka.records import Output


def _mortal(flag: Path) -> None:
    write = Intake.write

    async def last_write(self: Intake, record: Output) -> Accepted:
        accepted = await write(self, record)
        _die(flag)
        return accepted

    Intake.write = last_write


def _die(flag: Path) -> None:
    if flag.exists():
        flag.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _mortal(Path(sys.argv.pop()))
    runpy.run_module("agents.gateway", run_name="__main__")
