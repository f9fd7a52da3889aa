"""One open connection that is told of a task, and what waits to be written to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum, auto

from pipeline.events import Progress, Sample
from pipeline.live.record import Record

_MOST_BYTES = 8 * 1024 * 1024
"""Of texts that wait; the largest result is half of that."""


class Lost(Enum):
    """Why a listener is told nothing more."""

    SLOW = auto()
    LEFT = auto()
    CLOSING = auto()


class Listener:
    """Lives on the loop. The queue is bounded, in records and in bytes: past that the listener is dropped.

    Attributes:
        lost: set once, with which all that waits is let go.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: deque[Record] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._writing: asyncio.Timeout | None = None
        self.lost: Lost | None = None

    def put(self, record: Record) -> None:
        if self.lost is not None:
            return
        self._queue.append(record)
        self._bytes += _size(record)
        if len(self._queue) > self._most or self._bytes > _MOST_BYTES:
            self.lose(Lost.SLOW)
        self._wake.set()

    def lose(self, why: Lost) -> None:
        """Tell it nothing more; a write that is under way is given up."""
        if self.lost is not None:
            return
        self.lost = why
        self._queue.clear()
        self._bytes = 0
        self._wake.set()
        if self._writing is not None and not self._writing.expired():
            self._writing.reschedule(asyncio.get_running_loop().time())

    def look(self) -> None:
        """Have ``wait`` return, though nothing has come: time has passed."""
        self._wake.set()

    async def wait(self) -> list[Record]:
        """All that has come; empty when it is lost, or is to look around."""
        if not self._queue and self.lost is None:
            self._wake.clear()
            await self._wake.wait()
        found = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        return found

    @asynccontextmanager
    async def writing(self, seconds: float) -> AsyncGenerator[None]:
        """Around one write: TimeoutError after so many seconds, or when it is lost."""
        async with asyncio.timeout(0 if self.lost is not None else seconds) as limit:
            self._writing = limit
            try:
                yield
            finally:
                self._writing = None


def _size(record: Record) -> int:
    match record.event:
        case Progress() | Sample():
            return len(record.event.text)
        case _:
            return 0
