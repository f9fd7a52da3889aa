"""The batcher's other stream: orders to cancel, from ``control`` into the ``samples`` of their request's shard.

Workers read ``control`` too, from now on, and stop at once; that is a hint, which a worker that starts afresh misses.
The order itself is the record on ``samples``: there the aggregator meets it between the samples, and whoever reads
the partition again decides alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from faust.types import EventT

from pipeline.errors import TallystreamError
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source, dead_letter, decode_all
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.identify import identify_with
from pipeline.kafka.partition_worker import PartitionWorker
from pipeline.kafka.records import Output, Place, cancel_identity
from pipeline.scheduling.cancel import order_of
from pipeline.settings import Settings
from pipeline.topics import DEAD_LETTERS, SAMPLES, shard_of

_MOST_RECORDS = 500


class Canceller(PartitionWorker):
    """Serves the one partition of ``control``."""

    def __init__(self, settings: Settings, codec: Codec, place: Place) -> None:
        super().__init__(settings, place)
        self.codec = codec

    def open_sink(self, since_ms: int) -> FencedSink:
        letters = (DEAD_LETTERS, self.place[1] % self.settings.shards)
        return FencedSink.open(
            self.settings,
            source=self.place,
            since_ms=since_ms,
            reach=[*((SAMPLES, shard) for shard in range(self.settings.shards)), letters],
            identify=identify_with(self.codec),
        )

    async def gather(self) -> list[EventT[Any]]:
        first = await self.queue.get()
        await asyncio.sleep(self.company())
        return [first, *self.queued(_MOST_RECORDS - 1)]

    async def handle(
        self, records: Sequence[Source], emit: Callable[[Iterable[Output]], Awaitable[Any]]
    ) -> None:
        outputs: list[Output] = []
        for record, event in await self.call(decode_all, self.codec, records):
            try:
                order = order_of(event, record.timestamp)
            except TallystreamError as error:
                outputs.append(dead_letter(record, error, stage="batcher", shards=self.settings.shards))
                continue
            if order is not None:
                shard = shard_of(order.request_id, self.settings.shards)
                identity = cancel_identity(order.request_id, order.run, order.at)
                key = order.request_id.encode()
                outputs.append(Output(SAMPLES, shard, key, self.codec.encode(order), (identity,)))
        await emit(outputs)
