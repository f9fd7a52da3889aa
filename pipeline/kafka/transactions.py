"""Consume, process, produce: outputs and offsets in one Kafka transaction (KIP-447).

The order of ``publish``, and what a crash after each step leaves behind:

1. mark the finished tasks in the in-flight trackers   (memory only: the successor repeats the work)
2. begin, produce every output                         (never committed: no reader sees them)
3. send the positions of the partitions that moved     (still the same transaction)
4. commit                                              (outputs and positions are visible together)

A position is the lowest unfinished offset with, in its metadata, what is finished above it; so a
sample is published as soon as it is drawn, and a successor skips exactly what was published.

Errors: retriable, the same call again; the transaction must be aborted, abort and rewind to what is
committed; fatal, a new producer, then rewind. ``publish`` says by its return value whether it committed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from pipeline.errors import BrokerDownError
from pipeline.kafka.clients import (
    group_consumer,
    kafka_error,
    patiently,
    poll_many,
    repeat,
    transactional_producer,
    write,
)
from pipeline.kafka.in_flight import InFlight, Position
from pipeline.kafka.records import Finished, Output, Place
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_POLL_LIMIT = 16
_CALL_TIMEOUT = 5.0


class Rebalances(Protocol):
    """Told when partitions come and go; called inside ``poll``, on its thread."""

    def assigned(self, places: Sequence[Place]) -> None: ...

    def revoking(self) -> None:
        """Last chance to publish what is finished: the partitions are still owned."""
        ...

    def dropped(self, places: Sequence[Place]) -> None:
        """The partitions are gone, or will be read again from their committed positions."""
        ...


class TransactionalConsumer:
    """One member of a group whose outputs and offsets are committed together. Blocking, for one thread."""

    def __init__(
        self,
        settings: Settings,
        *,
        role: str,
        topics: Sequence[str],
        listener: Rebalances,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._transactional_id = f"{settings.app}-{role}-{settings.slot}"
        self._consumer: Consumer = group_consumer(settings, f"{settings.app}-{role}", self._transactional_id)
        self._producer: Producer = self._new_producer()
        self._in_flight: dict[Place, InFlight] = {}
        self._committed: dict[Place, Position] = {}
        self._paused: set[Place] = set()
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, timeout: float) -> list[Message]:
        """Records of the owned partitions; keeps the membership alive, so call it often.

        Args:
            timeout: seconds to wait for the first record.
        """
        messages: list[Message] = []
        for message in poll_many(self._consumer, _POLL_LIMIT, timeout):
            error = message.error()
            if error is None:
                if place_of(message) in self._in_flight:
                    messages.append(message)
            elif error.fatal():
                raise BrokerDownError(f"consumer {self._transactional_id}: {error}")
            else:
                log.warning("consumer error", error=str(error))
        return messages

    def track(self, message: Message, tasks: int) -> int:
        """Take a record in; returns the bitmap of its tasks that are finished already."""
        return self._in_flight[place_of(message)].add(message.offset() or 0, tasks)

    def owns(self, place: Place) -> bool:
        return place in self._in_flight

    def room(self, place: Place, tasks: int) -> bool:
        """Whether what one more ``poll`` can bring, records of so many tasks each, can be tracked."""
        return place in self._in_flight and self._in_flight[place].room(tasks, _POLL_LIMIT)

    def hold(self, places: Iterable[Place]) -> None:
        """Fetch nothing from these partitions, and from every other owned one."""
        wanted = set(places) & set(self._in_flight)
        pause, resume = wanted - self._paused, self._paused - wanted
        if pause:
            self._consumer.pause([TopicPartition(*place) for place in pause])
        if resume:
            self._consumer.resume([TopicPartition(*place) for place in resume if place in self._in_flight])
        self._paused = wanted

    def publish(self, outputs: Sequence[Output], finished: Iterable[Finished]) -> bool:
        """Write outputs and the progress they stand for, together.

        Returns:
            Whether it is committed. If not, every owned partition is read again from its committed
            position, and ``dropped`` was called: publish again when the records come back.
        """
        for task in finished:
            if task.place in self._in_flight:
                self._in_flight[task.place].finish(task.offset, task.task)
        moved = {
            place: position
            for place, tracker in self._in_flight.items()
            if (position := tracker.position()) != self._committed.get(place)
        }
        if not outputs and not moved:
            return True
        try:
            self._transaction(outputs, moved)
        except KafkaException as exception:
            self._recover(exception)
            return False
        self._committed.update(moved)
        return True

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _transaction(self, outputs: Sequence[Output], moved: dict[Place, Position]) -> None:
        producer = self._producer
        repeat(producer.begin_transaction)
        for out in outputs:
            write(producer, out)
        if moved:
            offsets = [
                TopicPartition(topic, partition, position.offset, position.metadata)
                for (topic, partition), position in moved.items()
            ]
            group = self._consumer.consumer_group_metadata()
            repeat(lambda: producer.send_offsets_to_transaction(offsets, group, _CALL_TIMEOUT))
        repeat(lambda: producer.commit_transaction(_CALL_TIMEOUT))

    def _recover(self, exception: KafkaException) -> None:
        error = kafka_error(exception)
        log.warning("transaction failed", error=str(error), fatal=error.fatal())
        rebuild = not error.txn_requires_abort()
        if not rebuild:
            try:
                repeat(lambda: self._producer.abort_transaction(_CALL_TIMEOUT))
            except KafkaException:
                rebuild = True
        if rebuild:
            self._producer.purge()
            self._producer = self._new_producer()
        places = list(self._in_flight)
        self._listener.dropped(places)
        for tp in self._load(places):
            with contextlib.suppress(KafkaException):  # it was revoked meanwhile: there is nothing to rewind
                self._consumer.seek(tp)

    def _new_producer(self) -> Producer:
        producer = transactional_producer(self._settings, self._transactional_id)
        repeat(lambda: producer.init_transactions(_CALL_TIMEOUT))
        return producer

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._paused.clear()
        places = [(tp.topic, tp.partition) for tp in partitions]
        starts = self._load(places)
        consumer.assign(starts)
        if starts:
            consumer.resume(starts)  # librdkafka remembers a pause over a rebalance
        self._listener.assigned(places)
        log.info("assigned", partitions=[f"{topic}[{partition}]" for topic, partition in places])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._listener.revoking()
        self._drop(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        places = [(tp.topic, tp.partition) for tp in partitions]
        for place in places:
            self._in_flight.pop(place, None)
            self._committed.pop(place, None)
        self._paused.clear()
        self._listener.dropped(places)

    def _load(self, places: Sequence[Place]) -> list[TopicPartition]:
        """Start the trackers from what is committed; returns where to read on."""
        if not places:
            return []
        wanted = [TopicPartition(*place) for place in places]
        committed = patiently(lambda: self._consumer.committed(wanted, timeout=_CALL_TIMEOUT))
        starts: list[TopicPartition] = []
        for tp in committed:
            place = (tp.topic, tp.partition)
            position = Position(tp.offset, tp.metadata or "") if tp.offset >= 0 else self._first(place)
            self._in_flight[place] = InFlight(position)
            self._committed[place] = position
            starts.append(TopicPartition(*place, position.offset))
        return starts

    def _first(self, place: Place) -> Position:
        low, _ = patiently(
            lambda: self._consumer.get_watermark_offsets(TopicPartition(*place), _CALL_TIMEOUT)
        )
        return Position(low)


def place_of(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0
