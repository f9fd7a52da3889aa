"""A store that is killed before or after its nth commit: python killed_store.py FOLDER N before|after"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.kafka.connect import make_codec
from pipeline.kafka.records import Place
from pipeline.settings import load_settings
from pipeline.store import follower
from pipeline.store.store import Store
from pipeline.store.view import Read, Taken, View


def main(folder: str, number: str, when: str) -> None:
    left, take = int(number), View.take

    def die_in_time(view: View, lot: Sequence[Read], positions: Mapping[Place, int]) -> Taken:
        nonlocal left
        left -= 1
        if left == 0 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        taken = take(view, lot, positions)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return taken

    View.take = die_in_time  # pyright: ignore[reportAttributeAccessIssue]
    follower._LOT = 2
    asyncio.run(follow(Path(folder)))


async def follow(folder: Path) -> None:
    settings = load_settings()
    async with Store(settings, make_codec(settings), folder) as store:
        await store.wait_ready()


if __name__ == "__main__":
    main(*sys.argv[1:])
