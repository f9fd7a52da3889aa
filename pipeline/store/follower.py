"""The one thread that reads the topics into the view.

A life begins at the positions that the file has and ends with the first trouble; the next one begins the same way,
so nothing is ever patched. What the view can not take now (Kafka or the registry away, a full disk) waits in Kafka.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.errors import BrokerDownError, TallystreamError
from pipeline.kafka.clients import admin_client, assigned_consumer, kafka_error, poll_many
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.places import end_offsets, first_offsets, partitions_of
from pipeline.kafka.records import Place
from pipeline.settings import Settings
from pipeline.store.counts import Counts, Rate
from pipeline.store.origin import TOPICS, event_of, source_of
from pipeline.store.rows import Stored
from pipeline.store.tasks import NO_LOAD, Load
from pipeline.store.view import Read, View
from pipeline.telemetry import now_ms
from pipeline.topics import DEAD_LETTERS, REQUESTS

log = structlog.get_logger(__name__)

_LOT = 500
_POLL = 0.2
_TICK = 1.0
"""Seconds between looks at what time alone changes."""
_PATIENCE = 3.0
"""Seconds within which Kafka answers, where nothing comes by itself."""
_PAUSE, _LONG_PAUSE = 0.5, 5.0
"""Seconds from a trouble to the next life: of Kafka, and of the disk."""
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

Told = Callable[[Sequence[Stored]], None]


class Follower:
    """
    Args:
        told: called on this thread with what each lot has stored, once it is committed.
        moved: called on this thread when positions have changed.

    Attributes:
        positions: up to where each partition was read; replaced, never changed.
        load: as it was last known.
        caught_up: all that was there when the follower began has been read.
        problem: why the view does not move; ``None`` while it does.
        skipped: records that were no events of ours, since the start.
    """

    def __init__(
        self, settings: Settings, codec: Codec, view: View, *, told: Told, moved: Callable[[], None]
    ) -> None:
        self._settings, self._codec, self._view = settings, codec, view
        self._told, self._moved = told, moved
        self.positions: Mapping[Place, int] = {}
        self.load: Load = NO_LOAD
        self.caught_up = False
        self.problem: str | None = None
        self.skipped = 0
        self._counts, self._rate = Counts(), Rate()
        self._goals: dict[Place, int] = {}
        self._heard_at = 0
        self._tick_at = 0.0
        self._sweeping = False
        self._anew = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended; call it on another one than the loop's."""
        self._stop.set()
        self._thread.join()

    def begin_anew(self) -> None:
        """The file is of no use: throw it away and read everything again. From any thread."""
        self._anew.set()

    def waiting_of(self, tenant: str) -> int:
        return self._counts.of(tenant)

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = _PAUSE
            try:
                self._live()
            except TallystreamError as error:
                self._trouble(error.message, code=error.code)
            except KafkaException as exception:
                self._trouble(kafka_error(exception).str())
            except sqlite3.Error as error:
                self._trouble(f"the view can not be written: {error}")
                pause = _LONG_PAUSE
                if is_broken(error):
                    self._anew.set()
            except Exception as error:
                log.exception("the follower has failed")
                self._trouble(f"{type(error).__name__}: {error}")
                pause = _LONG_PAUSE
            self._stop.wait(pause)

    def _trouble(self, problem: str, **more: str) -> None:
        if problem != self.problem:
            log.warning("the view waits", problem=problem, **more)
        self.problem = problem

    def _live(self) -> None:
        """One life: from the file's positions until something is wrong, or it is to stop."""
        if self._anew.is_set():
            log.warning("the view is built anew")
            self._view.renew()
            self._anew.clear()
            self.caught_up = False
        consumer = assigned_consumer(
            self._settings,
            auto_offset_reset="error",
            fetch_wait_max_ms=100,
            queued_max_messages_kbytes=16_384,
        )
        try:
            self._begin(consumer)
            while not self._stop.is_set():
                self._take(poll_many(consumer, _LOT, 0 if self._sweeping else _POLL))
                self._tick(consumer)
                self._look(consumer)
                self.problem = None
        finally:
            consumer.close()

    def _begin(self, consumer: Consumer) -> None:
        places = partitions_of(consumer, TOPICS, where=self._settings.bootstrap)
        if self._view.belongs_to(source_of(consumer, admin_client(self._settings), self._settings)):
            log.info("the view is of another Kafka, or of none, and is built anew")
            self.caught_up = False
        first, ends = first_offsets(consumer, places), end_offsets(consumer, places)
        known = self._view.positions()
        if ahead := [place for place in known if known[place] > ends.get(place, 0)]:
            self._anew.set()
            raise BrokerDownError(f"the view has read more than there is, on {ahead}: topics were made again")
        starts = {place: max(known.get(place, 0), first[place]) for place in places}
        self._goals = {place: end for place, end in ends.items() if starts[place] < end}
        self._counts = Counts(self._view.waiting())
        self.positions = starts
        self._heard_at = now_ms()
        consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])

    def _take(self, messages: Sequence[Message]) -> None:
        """Take in a lot, and the ends that were reached with it."""
        lot: list[Read] = []
        positions, reached = dict[Place, int](), dict(self.positions)
        for message in messages:
            place = message.topic() or "", message.partition() or 0
            if (error := message.error()) is not None:
                self._check(error)
                if error.code() == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
                    reached[place] = max(reached[place], message.offset() or 0)
                continue
            source = Source.of(message)
            positions[place] = reached[place] = source.offset + 1
            if (read := self._read(source)) is not None:
                lot.append(read)
        if positions:
            taken = self._view.take(lot, positions)
            for slot, count in taken.moves:
                self._counts.add(slot, count)
            for at in taken.ended:
                self._rate.ended(at)
            if taken.stored:
                self._told(taken.stored)
        if messages:
            self._heard_at = now_ms()
            self._advance(reached)

    def _check(self, error: KafkaError) -> None:
        """What the client mends itself is passed over."""
        if error.fatal() or error.code() in _ENDS_LIFE:
            raise BrokerDownError(error.str())

    def _read(self, source: Source) -> Read | None:
        if source.topic == DEAD_LETTERS:
            return source
        event = None if source.value is None else event_of(self._codec, source, self._settings.shards)
        if event is None:
            self.skipped += 1
            return None
        return Stored(source.topic, source.partition, source.offset, source.timestamp, event)

    def _advance(self, reached: dict[Place, int]) -> None:
        self.positions = reached
        self._goals = {place: end for place, end in self._goals.items() if reached[place] < end}
        self._moved()

    def _tick(self, consumer: Consumer) -> None:
        """Forget what is out of time, in small steps, so that the next lot is not kept waiting."""
        if not self._sweeping and time.monotonic() < self._tick_at:
            return
        self._tick_at = time.monotonic() + _TICK
        if self._anew.is_set() or self._view.lost:
            self._anew.set()
            raise BrokerDownError("the view's file is lost or damaged")
        if self._goals:  # what a result that is still to be read would keep must not be forgotten
            return
        found, moves = self._view.sweep(now_ms())
        for slot, count in moves:
            self._counts.add(slot, count)
        self._sweeping = found > 0
        if not self._sweeping and not self.caught_up:
            log.info("the view has caught up")
            self.caught_up = True
            self._moved()
        self._ask(consumer)

    def _ask(self, consumer: Consumer) -> None:
        """Where nothing comes, a question tells a quiet Kafka from one that is away."""
        now = now_ms()
        if now - self._heard_at > _TICK * 1000:
            end_offsets(consumer, [(REQUESTS, 0)], patience=_PATIENCE)
            self._heard_at = now_ms()

    def _look(self, consumer: Consumer) -> None:
        unread = 0
        for place, position in self.positions.items():
            if place[0] == REQUESTS:
                _, high = consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
                unread += max(0, high - position)
        now = now_ms()
        self.load = Load(
            lanes=self._counts.lanes(self._view.oldest()),
            unread=unread,
            finished_per_second=self._rate.per_second(now),
            as_of=self._heard_at,
        )


_ENDS_LIFE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # pyright: ignore[reportPrivateUsage]
        KafkaError._UNKNOWN_PARTITION,  # pyright: ignore[reportPrivateUsage]
        KafkaError._UNKNOWN_TOPIC,  # pyright: ignore[reportPrivateUsage]
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""The topics are not what they were: only a new beginning tells."""


def is_broken(error: sqlite3.Error) -> bool:
    """The file is no database any more, whatever is done with it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN
