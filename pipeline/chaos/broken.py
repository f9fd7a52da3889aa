"""Negative controls: a real agent with one guarantee taken away. ``python -m pipeline.chaos.broken MODE AGENT``.

An audit that finds nothing has to be able to find something: each mode must make it report losses or duplicates.
Nothing that is shipped imports this module.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
import time
import uuid
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from confluent_kafka import Message, TopicPartition

from pipeline.chaos.guarantees import Broken
from pipeline.kafka import fenced_sink, in_flight, partition_worker, transactions
from pipeline.kafka.clients import plain_producer, write
from pipeline.kafka.kept_consumers import consumers, keeping
from pipeline.kafka.records import Output
from pipeline.kafka.transactional_producer import TransactionalProducer
from pipeline.settings import Settings

_COMMIT_EVERY = 1.0


def break_guarantee(mode: Broken) -> None:
    """Patch this process."""
    match mode:
        case Broken.NO_FENCE:
            _replace(fenced_sink, "TransactionalProducer", _unfenced)
            _replace(fenced_sink, "read_back", _nothing_read_back)
        case Broken.EARLY_ACK:
            _replace(partition_worker.PartitionWorkers, "_feed", _feed_and_ack)
            _replace(in_flight.InFlight, "add", _add_as_finished)
        case Broken.NO_TRANSACTION:
            _replace(transactions, "group_consumer", keeping(transactions.group_consumer))
            _replace(transactions, "TransactionalProducer", _PlainProducer)


def _replace(owner: ModuleType | type, name: str, value: object) -> None:
    getattr(owner, name)  # a guarantee that has moved must not stay intact unnoticed
    setattr(owner, name, value)


def _unfenced(settings: Settings, transactional_id: str) -> TransactionalProducer:
    """No two owners share an id, so none is fenced."""
    return TransactionalProducer(settings, f"{transactional_id}-{uuid.uuid4().hex}")


def _nothing_read_back(*_: object, **__: object) -> tuple[Message, ...]:
    return ()


async def _feed_and_ack(workers: Any, stream: Any) -> None:
    """Acknowledges a record when it comes, before anything is made of it."""
    async for event in stream.noack().events():
        event.ack()
        await asyncio.sleep(0)
        message = event.message
        await workers._ensure((message.topic, message.partition)).queue.put(event)


_add = in_flight.InFlight.add


def _add_as_finished(tracker: in_flight.InFlight, offset: int, tasks: int) -> int:
    """Commits a record's offset as soon as it is read, before its samples are drawn."""
    done = _add(tracker, offset, tasks)
    for task in range(tasks):
        tracker.finish(offset, task)
    return done


class _PlainProducer:
    """Writes outputs at once and commits offsets apart, once a second, as automatic commits do."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._producer = plain_producer(settings, linger_ms=0)
        self._offsets: dict[tuple[str, int], TopicPartition] = {}
        self._committed_at = time.monotonic()

    def fence(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def commit(
        self, outputs: Sequence[Output], offsets: Sequence[TopicPartition] = (), group: object = None
    ) -> None:
        for out in outputs:
            write(self._producer, out)
        self._producer.flush()
        self._offsets.update({(tp.topic, tp.partition): tp for tp in offsets})
        if time.monotonic() - self._committed_at >= _COMMIT_EVERY:
            self._committed_at = time.monotonic()
            consumers[-1].commit(offsets=list(self._offsets.values()), asynchronous=False)
            self._offsets.clear()


if __name__ == "__main__":
    break_guarantee(Broken(sys.argv[1]))
    module = sys.argv[2]
    del sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
