"""Reads ``progress`` for the hub, on a thread of its own, from when it starts on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Self

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from pipeline.errors import BrokerDownError, DecodeError, DependencyDownError
from pipeline.events import PRIORITIES, Progress
from pipeline.kafka.clients import assigned_consumer, patiently, poll_many, value_of
from pipeline.kafka.codec import Codec
from pipeline.live.hub import Hub
from pipeline.live.record import Record
from pipeline.settings import Settings
from pipeline.topics import PROGRESS, REQUESTS

log = structlog.get_logger(__name__)

_AT_ONCE = 500
_WAIT = 0.2
_PAUSE = 1.0
_LOST = 2.0


class ProgressFollower:
    """Runs while the block lasts; a broker that is away is waited for. What is missed is missed: it is a preview."""

    def __init__(self, settings: Settings, codec: Codec, hub: Hub) -> None:
        self._settings, self._codec, self._hub = settings, codec, hub
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        # Kafka answers a fetch as soon as there is anything, so the wait costs no time and saves idle rounds.
        consumer = assigned_consumer(self._settings, enable_partition_eof=False, fetch_wait_max_ms=200)
        try:
            while not self._stop.is_set() and not self._begin(consumer):
                self._stop.wait(_PAUSE)
            while not self._stop.is_set():
                if found := list(self._read(consumer)):
                    self._hub.offer(found)
                    self._hub.wait_for_room(_LOST)
        finally:
            consumer.close()

    def _begin(self, consumer: Consumer) -> bool:
        """Go to the ends. Those of ``requests`` are asked behind: what is asked from there on has told nothing yet."""
        shards = self._settings.shards
        try:
            progress = _ends(consumer, PROGRESS, shards)
            requests = _ends(consumer, REQUESTS, PRIORITIES * shards)
            consumer.assign([TopicPartition(PROGRESS, part, offset) for part, offset in progress.items()])
        except (BrokerDownError, KafkaException) as error:
            log.warning("progress can not be followed yet", error=str(error))
            return False
        self._hub.begun(progress, requests)
        return True

    def _read(self, consumer: Consumer) -> Iterator[Record]:
        for message in poll_many(consumer, _AT_ONCE, _WAIT):
            if (error := message.error()) is not None:
                log.warning("consumer error", error=str(error))
            elif (record := self._record(message)) is not None:
                yield record

    def _record(self, message: Message) -> Record | None:
        try:
            event = self._codec.decode(value_of(message))
        except (DecodeError, DependencyDownError) as error:
            log.warning("progress record skipped", code=error.code, error=error.message)
            return None
        if not isinstance(event, Progress):
            return None
        place = message.partition() or 0, message.offset() or 0
        return Record(PROGRESS, *place, message.timestamp()[1], event)


def _ends(consumer: Consumer, topic: str, partitions: int) -> dict[int, int]:
    """
    Raises:
        BrokerDownError: Kafka does not answer.
    """

    def end(partition: int) -> int:
        tp = TopicPartition(topic, partition)
        return patiently(partial(consumer.get_watermark_offsets, tp, timeout=_LOST), deadline=_LOST)[1]

    return {partition: end(partition) for partition in range(partitions)}
