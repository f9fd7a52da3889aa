"""How the agents of this machine are, asked at most every other second, however many look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from aiohttp import web

from pipeline.health_server import AgentHealth

_OLD = 2.0


class AgentsHere:
    """Lives on the event loop; asks on a thread, as an agent may take seconds to answer.

    Args:
        ask: blocks.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, ask: Callable[[], Sequence[AgentHealth]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask, self._clock = ask, clock
        self._known: Sequence[AgentHealth] = ()
        self._looked_at: float | None = None
        self._looking: asyncio.Task[Sequence[AgentHealth]] | None = None

    async def look(self) -> Sequence[AgentHealth]:
        """What is known now; only who asks first of all waits for the answers."""
        first = self._looked_at is None
        if self._looking is None and (self._looked_at is None or self._clock() - self._looked_at >= _OLD):
            self._looking = asyncio.create_task(asyncio.to_thread(self._ask))
            self._looking.add_done_callback(self._looked)
        if first and self._looking is not None:
            return await asyncio.shield(self._looking)
        return self._known

    def _looked(self, task: asyncio.Task[Sequence[AgentHealth]]) -> None:
        self._looking, self._looked_at = None, self._clock()
        if not task.cancelled() and task.exception() is None:
            self._known = task.result()


AGENTS_HERE = web.AppKey("agents_here", AgentsHere)
