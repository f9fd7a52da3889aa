"""Where the partitions of ``requests`` end now. All who ask while one question is under way share the next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from pipeline.events import PRIORITIES
from pipeline.kafka.clients import assigned_consumer
from pipeline.kafka.places import end_offsets
from pipeline.kafka.records import Place
from pipeline.settings import Settings
from pipeline.topics import REQUESTS


class Ends:
    """For one event loop.

    The ends are those of all records, also of those that a transaction has not committed: a record that was
    acknowledged may stand behind one.
    """

    def __init__(self, settings: Settings) -> None:
        self._patience = max(settings.gateway.catch_up, 0.1)
        self._places = [(REQUESTS, partition) for partition in range(PRIORITIES * settings.shards)]
        self._consumer = assigned_consumer(settings, isolation_level="read_uncommitted")
        self._thread = ThreadPoolExecutor(1, "store-ends")
        self._asking: asyncio.Future[Mapping[Place, int]] | None = None
        self._next: asyncio.Future[Mapping[Place, int]] | None = None

    async def now(self) -> Mapping[Place, int]:
        """The ends at a time after the call.

        Raises:
            BrokerDownError: Kafka does not answer.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._ask(self._asking))
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        for question in (self._asking, self._next):
            if question is not None:
                await asyncio.wait([question])
        await asyncio.get_running_loop().run_in_executor(self._thread, self._consumer.close)
        self._thread.shutdown()

    async def _ask(self, before: asyncio.Future[Mapping[Place, int]] | None) -> Mapping[Place, int]:
        if before is not None:
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, end_offsets, self._consumer, self._places, self._patience
        )
