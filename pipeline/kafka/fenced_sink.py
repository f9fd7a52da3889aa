"""The fenced sink: exactly-once output for an at-least-once input.

One sink belongs to one input partition, by its transactional id. Why nothing is written twice:

1. ``open`` fences: ``init_transactions`` under the stable id ends every older owner's transaction, and
   from then on every call of an older owner fails. Nobody else can write what this input leads to.
2. ``open`` reads back, read_committed, the identities in the few output partitions that this input can
   reach, since the oldest input that can come again. What an older owner wrote is known from here on.
3. ``emit`` drops what is known and writes the rest in one transaction: all of it or none of it.
4. What was committed is remembered, so a repeated input is dropped while this owner lives.

Why nothing is lost: the caller acknowledges an input only after ``emit`` has returned. A sink that
failed, for whatever reason, raises and is closed; the caller opens a new one, and step 2 tells it
whether the transaction of unknown outcome was committed.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from confluent_kafka import KafkaException, Message

from pipeline.errors import BrokerDownError, FencedError
from pipeline.kafka.clients import kafka_error, repeat, transactional_producer, write
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Identity, Output
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_CLOCK_SLACK_MS = 60_000
"""Brokers stamp inputs and outputs each by their own clock."""

_CALL_TIMEOUT = 5.0

Identify = Callable[[Message], Iterable[Identity]]


class FencedSink:
    """The only writer of what one input partition leads to. Blocking: call it off the event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        source: tuple[str, int],
        reach: Sequence[tuple[str, int]],
        identify: Identify,
        remember: int = 200_000,
    ) -> None:
        """Args:
        source: the input's topic and partition.
        reach: every output topic and partition that holds identities of this input.
        identify: the identities in a record that was read back.
        remember: how many identities are kept, the oldest forgotten first.
        """
        self._settings = settings
        self._source = source
        self._reach = reach
        self._identify = identify
        self._remember = remember
        self._known: OrderedDict[Identity, None] = OrderedDict()
        self._producer = transactional_producer(settings, f"{settings.app}-{source[0]}-{source[1]}")

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        source: tuple[str, int],
        since_ms: int,
        reach: Sequence[tuple[str, int]],
        identify: Identify,
    ) -> FencedSink:
        """Fence every older owner of ``source`` and learn what they wrote.

        Args:
            since_ms: broker time of the oldest input that can come again.

        Raises:
            BrokerDownError: Kafka can not be reached; try again later.
            FencedError: a newer owner came while this one was opening.
        """
        started = time.monotonic()
        sink = cls(settings, source=source, reach=reach, identify=identify)
        sink._call("init_transactions", lambda: sink._producer.init_transactions(_CALL_TIMEOUT))
        fenced = time.monotonic()
        for message in read_back(settings, reach, since_ms=max(since_ms - _CLOCK_SLACK_MS, 1)):
            sink._learn(identify(message))
        log.info(
            "sink opened",
            source=f"{source[0]}[{source[1]}]",
            fence_ms=round((fenced - started) * 1000),
            read_back_ms=round((time.monotonic() - fenced) * 1000),
            known=len(sink._known),
        )
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
        fresh = [out for out in outputs if not out.identities or not all(map(self.has, out.identities))]
        if not fresh:
            return 0
        self._call("begin_transaction", self._producer.begin_transaction)
        for out in fresh:
            self._call("produce", partial(write, self._producer, out))
        self._call("commit_transaction", lambda: self._producer.commit_transaction(_CALL_TIMEOUT))
        for out in fresh:
            self._learn(out.identities)
        return len(fresh)

    def close(self) -> None:
        """Let the producer go; an open transaction is left to be fenced or timed out."""
        self._producer.purge()

    def _call(self, what: str, call: Callable[[], None]) -> None:
        try:
            repeat(call)
        except KafkaException as exception:
            raise self._failure(what, exception) from exception

    def _failure(self, what: str, exception: KafkaException) -> FencedError | BrokerDownError:
        error = kafka_error(exception)
        self.close()
        where = f"{self._source[0]}[{self._source[1]}] {what}: {error}"
        return FencedError(where) if error.fatal() else BrokerDownError(where)

    def _learn(self, identities: Iterable[Identity]) -> None:
        for identity in identities:
            self._known[identity] = None
            self._known.move_to_end(identity)
        while len(self._known) > self._remember:
            self._known.popitem(last=False)
