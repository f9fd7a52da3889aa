"""Runs a real agent that is broken in one way while a file exists: ``bent_agent AGENT BEND FILE``.

Bends: ``bug`` (the handler raises), ``deaf`` (records of its partitions are not fetched any more, though nobody was
told), ``wedged`` (the event loop blocks with a record in hand).
"""

from __future__ import annotations

import asyncio
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from pipeline.kafka import partition_worker
from pipeline.kafka.faust_app import _ReadCommittedThread  # pyright: ignore[reportPrivateUsage]


def _bent(bend: str, flag: Path) -> None:
    if bend == "deaf":
        whole = _ReadCommittedThread.getmany

        async def getmany(self: Any, *args: Any) -> Any:
            while flag.exists():  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.05)
            return await whole(self, *args)

        _ReadCommittedThread.getmany = getmany  # pyright: ignore[reportAttributeAccessIssue]
        return
    source_of = partition_worker.source_of

    def broken(event: Any) -> Any:
        if flag.exists() and bend == "bug":
            raise RuntimeError("a bug, on purpose")
        while flag.exists():  # on the event loop
            time.sleep(0.01)
        return source_of(event)

    partition_worker.source_of = broken


if __name__ == "__main__":
    agent, bend, flag = sys.argv[1:]
    _bent(bend, Path(flag))
    runpy.run_module(f"agents.{agent}", run_name="__main__")
