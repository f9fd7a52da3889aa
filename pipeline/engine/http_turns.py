"""How many samples a server is asked for at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Turns:
    """Places for samples that are drawn at once, given out first come first served and all of a call together."""

    def __init__(self, places: int) -> None:
        self._places = asyncio.Semaphore(places)
        self._door = asyncio.Lock()

    @asynccontextmanager
    async def taken(self, count: int) -> AsyncGenerator[None, None]:
        """Hold ``count`` places, at most all there are, for the time of the context."""
        held = 0
        try:
            async with self._door:
                while held < count:
                    await self._places.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._places.release()
