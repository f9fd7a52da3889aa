"""State of one input partition as a compacted topic: the last value of each key is what an owner left.

What an owner has logged is read by the next one. An older owner may write after that, when it was paused and
woke; what it writes is never of use, because the records that led to it come to the new owner as well, and
must never do harm, for which its reader has to care.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from pipeline.errors import BrokerDownError
from pipeline.kafka.clients import plain_producer, write
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Output, Place
from pipeline.settings import Settings

Write = tuple[bytes, bytes | None]
"""Key and value; ``None`` deletes."""


class Changelog:
    """Writes a changelog, and reads it. One for a process: its partitions share a producer."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._producer = self._new_producer()
        self._one_at_a_time = threading.Lock()

    def read(self, partition: int) -> dict[bytes, bytes]:
        """What is kept now, by key. Blocking.

        Raises:
            BrokerDownError: Kafka is away.
        """
        return latest(self._settings, (self._topic, partition))

    async def log(self, partition: int, writes: Sequence[Write]) -> None:
        """Return when all of this is durable, in order.

        Raises:
            BrokerDownError: some of it may not be; the same again does no harm.
        """
        if writes:
            await asyncio.to_thread(self._log, partition, writes)

    def _log(self, partition: int, writes: Sequence[Write]) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        with self._one_at_a_time:
            for key, value in writes:
                write(self._producer, Output(self._topic, partition, key, value), on_delivery=delivered)
            unsent = self._producer.flush(2 * self._settings.transaction_timeout_ms / 1000)
            if failed or unsent:
                self._producer.purge()  # the caller writes it again, and nothing older may come after that
                self._producer = self._new_producer()
                cause = failed[0].str() if failed else "no answer"
                raise BrokerDownError(f"{self._topic}[{partition}]: not written: {cause}")

    def _new_producer(self) -> Producer:
        timeout = self._settings.transaction_timeout_ms
        return plain_producer(self._settings, linger_ms=0, message_timeout_ms=timeout)


def latest(settings: Settings, place: Place) -> dict[bytes, bytes]:
    """What a compacted partition holds now, by key. Blocking.

    Raises:
        BrokerDownError: Kafka is away.
    """
    kept: dict[bytes, bytes] = {}
    for message in read_back(settings, [place]):
        key, value = message.key(), message.value()
        if isinstance(key, bytes) and isinstance(value, bytes):
            kept[key] = value
        elif isinstance(key, bytes):
            kept.pop(key, None)
    return kept
