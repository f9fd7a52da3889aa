"""The fenced sink: exactly-once output for an at-least-once input.

One sink belongs to one input partition, by its transactional id. Why nothing is written twice:

1. ``open`` fences: ``init_transactions`` under the stable id ends every older owner's transaction, and
   from then on every call of an older owner fails. Nobody else can write what this input leads to.
2. ``open`` reads back, read_committed, the identities in the few output partitions that this input can
   reach, since the oldest input that can come again. What an older owner wrote is known from here on.
3. ``emit`` drops what is known and writes the rest in one transaction: all of it or none of it.
4. What was committed is remembered, so a repeated input is dropped while this owner lives. Memory is
   bounded: beyond a number of identities, those older than any input that can come again are forgotten.

Why nothing is lost: the caller acknowledges an input only after ``emit`` has returned. A sink that
failed, for whatever reason, raises and is closed; the caller opens a new one, and step 2 tells it
whether the transaction of unknown outcome was committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import structlog
from confluent_kafka import KafkaException, Message

from pipeline.errors import BrokerDownError, FencedError
from pipeline.kafka.clients import kafka_error
from pipeline.kafka.identity_memory import IdentityMemory
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Identity, Output, Place
from pipeline.kafka.transactional_producer import TransactionalProducer
from pipeline.settings import Settings
from pipeline.telemetry import now_ms

log = structlog.get_logger(__name__)

_CLOCK_SLACK_MS = 60_000
"""Brokers stamp inputs and outputs each by their own clock."""

_REMEMBERED = 200_000
"""Identities, about 50 MB; more only while their inputs can come again."""

Identify = Callable[[Message], Iterable[Identity]]


class FencedSink:
    """The only writer of what one input partition leads to. Blocking: call it off the event loop."""

    def __init__(self, settings: Settings, source: Place) -> None:
        self._source = f"{source[0]}[{source[1]}]"
        self._known = IdentityMemory(_REMEMBERED)
        self._producer = TransactionalProducer(settings, f"{settings.app}-{source[0]}-{source[1]}")

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        source: Place,
        since_ms: int,
        reach: Sequence[Place],
        identify: Identify,
    ) -> FencedSink:
        """Fence every older owner of ``source`` and learn what they wrote.

        Args:
            source: the input's topic and partition.
            since_ms: broker time of the oldest input that can come again.
            reach: every output topic and partition that holds identities of this input.
            identify: the identities in a record that was read back.

        Raises:
            BrokerDownError: Kafka can not be reached; try again later.
            FencedError: a newer owner came while this one was opening.
        """
        sink = cls(settings, source)
        try:
            sink._open(settings, since_ms, reach, identify)
        except BaseException:
            sink.close()
            raise
        return sink

    def has(self, identity: Identity) -> bool:
        """Whether this is written already."""
        return identity in self._known

    def emit(self, outputs: Sequence[Output]) -> int:
        """Write what is not written yet, all in one transaction; returns how many records that was.

        Raises:
            FencedError: a newer owner has taken over; nothing of this call was committed by it.
            BrokerDownError: the outcome is unknown; open a new sink, which will know.
        """
        fresh = list(self._fresh(outputs))
        if not fresh:
            return 0
        self._write("commit", lambda: self._producer.commit(fresh))
        now = now_ms()
        for out in fresh:
            self._known.learn(out.identities, now)
        return len(fresh)

    def settled(self, before_ms: int) -> None:
        """Inputs older than this, by the broker's time, are through: they can't come to this owner again."""
        self._known.forget(before_ms - _CLOCK_SLACK_MS)

    def close(self) -> None:
        """Let the producer go; an open transaction is left to be fenced or timed out."""
        self._producer.close()

    def _open(self, settings: Settings, since_ms: int, reach: Sequence[Place], identify: Identify) -> None:
        started = time.monotonic()
        self._write("fence", self._producer.fence)
        fenced = time.monotonic()
        for message in read_back(settings, reach, since_ms=max(since_ms - _CLOCK_SLACK_MS, 1)):
            self._known.learn(identify(message), message.timestamp()[1])
        log.info(
            "sink opened",
            source=self._source,
            fence_ms=round((fenced - started) * 1000),
            read_back_ms=round((time.monotonic() - fenced) * 1000),
            known=len(self._known),
        )

    def _fresh(self, outputs: Sequence[Output]) -> Iterable[Output]:
        """What is not written, each once: the same input may stand twice in one call."""
        taken: set[Identity] = set()
        for out in outputs:
            if not out.identities or not all(name in self._known or name in taken for name in out.identities):
                taken.update(out.identities)
                yield out

    def _write(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except KafkaException as exception:
            error = kafka_error(exception)
            where = f"{self._source} {what}: {error}"
            raise FencedError(where) if error.fatal() else BrokerDownError(where) from exception
