"""Consume, process, produce: outputs and offsets in one Kafka transaction (KIP-447).

The order of ``publish``, and what a crash after each step leaves behind:

1. mark the finished tasks in the in-flight trackers   (memory only: the successor repeats the work)
2. begin, produce every output                         (never committed: no reader sees them)
3. send the positions of the partitions that moved     (still the same transaction)
4. commit                                              (outputs and positions are visible together)

A position is the lowest unfinished offset with, in its metadata, what is finished above it; so a
sample is published as soon as it is drawn, and a successor skips exactly what was published.

Positions go with every transaction, also when none has moved: they carry the group's generation, so a
member that was given up (a process that was paused and woke) is refused by the broker.

Errors: retriable, the same call again; the transaction must be aborted, abort it; fatal or no answer, a
new producer under the same id. Then every owned partition is read again from what is committed: ``poll``
does it as soon as the broker answers. ``publish`` says by its return value whether it committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.errors import BrokerDownError, DependencyDownError
from pipeline.kafka.clients import group_consumer, kafka_error, patiently
from pipeline.kafka.in_flight import InFlight, Position
from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactional_producer import TransactionalProducer
from pipeline.kafka.unread import Look, Unread
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_POLL_LIMIT = 16
_CALL_TIMEOUT = 5.0
_PAUSE = 0.2


class Rebalances(Protocol):
    """Told when partitions come and go; called inside ``poll`` and ``publish``, on their thread."""

    def assigned(self, places: Sequence[Place]) -> None:
        """These partitions are read from their committed positions on, from now.

        May raise ``DependencyDownError``: then it is called again.
        """
        ...

    def revoking(self) -> None:
        """Last chance to publish what is finished: the partitions are still owned."""
        ...

    def rewound(self, places: Sequence[Place]) -> None:
        """A transaction failed: forget what was read of these; ``assigned`` follows and it comes again."""
        ...

    def dropped(self, places: Sequence[Place]) -> None:
        """The partitions are gone, to whoever owns them now."""
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
        look: Look = lambda _: None,
    ) -> None:
        """Join the group.

        Args:
            look: a record for which it raises ``DependencyDownError`` waits, and nothing more is fetched.
        """
        self._settings = settings
        self._listener = listener
        self._transactional_id = f"{settings.app}-{role}-{settings.slot}"
        self._group, self._topics = f"{settings.app}-{role}", list(topics)
        self._producer: TransactionalProducer | None = None
        self._in_flight: dict[Place, InFlight] = {}
        self._committed: dict[Place, Position] = {}
        self._owned: set[Place] = set()
        self._assignments = 0
        self._held: set[Place] = set()
        self._paused: set[Place] = set()
        self._unread = Unread(look)
        self._consumer = self._join()

    def poll(self, timeout: float) -> list[Message]:
        """Records of the owned partitions; keeps the membership alive, so call it often.

        Args:
            timeout: seconds to wait for the first record.
        """
        messages: list[Message] = []
        for message in self._fetch(timeout if self._ready() else _PAUSE):
            error = message.error()
            if error is None:
                if place_of(message) in self._in_flight:
                    messages.append(message)
            elif error.fatal() or error.code() == KafkaError._FATAL:  # pyright: ignore[reportPrivateUsage]
                self._join_again(error)
                return []
            else:
                log.warning("consumer error", error=str(error))
        readable = self._unread.readable(messages)
        self._pause()
        return readable

    def track(self, message: Message, tasks: int) -> int:
        """Take a record in; returns the bitmap of its tasks that are finished already."""
        return self._in_flight[place_of(message)].add(message.offset() or 0, tasks)

    def owns(self, place: Place) -> bool:
        return place in self._owned

    @property
    def holding(self) -> dict[Place, bool] | None:
        """The owned partitions, each held (paused, or with unfinished records) or not; ``None`` before the first."""
        if not self._assignments:
            return None
        return {
            place: place in self._paused or (place in self._in_flight and self._in_flight[place].unfinished)
            for place in self._owned
        }

    def room(self, place: Place, tasks: int) -> bool:
        """Whether what one more ``poll`` can bring, records of so many tasks each, can be tracked."""
        return place in self._in_flight and self._in_flight[place].room(tasks, _POLL_LIMIT)

    def hold(self, places: Iterable[Place]) -> None:
        """Fetch nothing from these partitions, and from every other owned one."""
        self._held = set(places)
        self._pause()

    def _pause(self) -> None:
        wanted = set(self._in_flight) if self._unread else self._held & set(self._in_flight)
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
            position, and ``rewound`` was called: publish again when the records come back.
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
        if self._producer is None or not self._in_flight:
            return False
        positions = moved or {place: tracker.position() for place, tracker in self._in_flight.items()}
        offsets = [
            TopicPartition(*place, position.offset, position.metadata)
            for place, position in positions.items()
        ]
        try:
            self._producer.commit(outputs, offsets, self._consumer.consumer_group_metadata())
        except (KafkaException, BrokerDownError) as error:
            self._rewind(self._producer, error)
            return False
        self._committed.update(moved)
        return True

    def close(self) -> None:
        """Publish what is finished (``revoking`` is called), and leave the group."""
        self._consumer.close()
        if self._producer is not None:
            self._discard(self._producer)

    def _join(self) -> Consumer:
        consumer = group_consumer(self._settings, self._group, self._transactional_id)
        consumer.subscribe(
            self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        return consumer

    def _join_again(self, error: KafkaError) -> None:
        """A consumer that failed for good is of no more use, and says so once: a new one takes its place.

        An outage is enough: a static member whose answer got lost joins a second time, and the broker takes its
        first membership for somebody else's.
        """
        log.warning("joining the group again", error=str(error))
        self._drop([TopicPartition(*place) for place in self._owned])
        self._consumer.close()
        self._consumer = self._join()

    def _fetch(self, timeout: float) -> list[Message]:
        """Wait for one record, then take what else is there.

        A rebalance in between makes what came before it stale: taken for records of the new assignment, it
        would move the position past records that are to be read again. Then everything is.
        """
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        assignment = self._assignments
        rest = self._consumer.consume(_POLL_LIMIT - 1, timeout=0)
        if self._assignments != assignment:
            self._in_flight.clear()
            self._unread.clear()
            return []
        return [first, *rest]

    def _ready(self) -> bool:
        """Whether everything owned can be read and published; tries to make it so."""
        try:
            if self._producer is None:
                self._producer = self._new_producer()
            if self._owned and not self._in_flight:
                self._resume()
        except (KafkaException, DependencyDownError) as error:
            log.warning("not ready", error=str(error))
            return False
        return True

    def _rewind(self, producer: TransactionalProducer, error: KafkaException | BrokerDownError) -> None:
        """After a failed transaction: nothing is owned until ``_ready`` has read what is committed."""
        log.warning("transaction failed", error=str(error))
        if not (isinstance(error, KafkaException) and kafka_error(error).txn_requires_abort()):
            self._discard(producer)
        else:
            try:
                producer.abort()
            except (KafkaException, BrokerDownError):
                self._discard(producer)
        self._in_flight.clear()
        self._unread.clear()
        self._committed.clear()
        self._listener.rewound(list(self._owned))

    def _discard(self, producer: TransactionalProducer) -> None:
        producer.close()
        self._producer = None

    def _new_producer(self) -> TransactionalProducer:
        producer = TransactionalProducer(self._settings, self._transactional_id)
        try:
            producer.fence()
        except BaseException:
            producer.close()
            raise
        return producer

    def _resume(self) -> None:
        """Read every owned partition from its committed position on.

        The positions are read after the producer has fenced its predecessor, and librdkafka forgets what it
        had fetched when partitions are assigned anew.
        """
        positions = self._load(list(self._owned))
        self._listener.assigned(list(positions))
        starts = [TopicPartition(*place, position.offset) for place, position in positions.items()]
        self._consumer.assign(starts)
        self._consumer.resume(starts)  # librdkafka remembers a pause over a rebalance
        self._paused.clear()
        self._committed = positions
        self._in_flight = {place: InFlight(position) for place, position in positions.items()}

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignments += 1
        self._owned = {(tp.topic, tp.partition) for tp in partitions}
        log.info("assigned", partitions=[f"{topic}[{partition}]" for topic, partition in self._owned])
        if not self._owned or not self._ready():
            consumer.assign([])  # until ``poll`` can assign them with their positions

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._listener.revoking()
        self._drop(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        self._assignments += 1
        self._owned.clear()
        self._in_flight.clear()
        self._unread.clear()
        self._committed.clear()
        self._paused.clear()
        self._listener.dropped([(tp.topic, tp.partition) for tp in partitions])

    def _load(self, places: Sequence[Place]) -> dict[Place, Position]:
        wanted = [TopicPartition(*place) for place in places]
        committed = patiently(
            lambda: self._consumer.committed(wanted, timeout=_CALL_TIMEOUT), deadline=_CALL_TIMEOUT
        )
        return {
            (tp.topic, tp.partition): Position(tp.offset, tp.metadata or "")
            if tp.offset >= 0
            else self._first(tp)
            for tp in committed
        }

    def _first(self, tp: TopicPartition) -> Position:
        start = TopicPartition(tp.topic, tp.partition)
        low, _ = patiently(
            lambda: self._consumer.get_watermark_offsets(start, _CALL_TIMEOUT), deadline=_CALL_TIMEOUT
        )
        return Position(low)


def place_of(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0
