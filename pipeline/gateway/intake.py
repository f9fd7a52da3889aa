"""The way into Kafka: a record is accepted when the broker has it, never before.

One producer for the whole process. ``produce`` only queues, so it is called on the event loop; a thread of its own
collects the acknowledgements and hands them back in lots, so that a thousand of them wake the loop once.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from pipeline.errors import BrokerDownError, OverloadedError, PayloadTooLargeError, TallystreamError
from pipeline.kafka.clients import kafka_error, plain_producer
from pipeline.kafka.records import Output
from pipeline.settings import Settings

_POLL = 0.2
_QUEUED_KILOBYTES = 65_536
_MARGIN = 1.0
"""Seconds after which the client's own time-out counts as missed."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where a record stands, and when the broker took it (ms)."""

    topic: str
    partition: int
    offset: int
    at: int


_Settled = tuple[asyncio.Future[Accepted], Accepted | TallystreamError]


class Intake:
    """Writes records and waits for their acknowledgement; an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._timeout = settings.gateway.acknowledge_timeout
        self._producer = plain_producer(
            settings,
            message_timeout_ms=round(1000 * self._timeout),
            queue_buffering_max_kbytes=_QUEUED_KILOBYTES,
        )
        self._settled: list[_Settled] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Intake:
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._collect, args=(loop,), name="intake", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def write(self, record: Output) -> Accepted:
        """Write a record; returns when Kafka has it.

        Raises:
            PayloadTooLargeError: it is larger than its topic takes.
            OverloadedError: too much waits to be acknowledged; nothing was written.
            BrokerDownError: no acknowledgement came in time, so it may be written or not.
        """
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._settled.append((answer, _outcome(error, message)))

        try:
            self._producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=delivered,
                headers=list(record.headers),
            )
        except BufferError:
            raise OverloadedError(
                "too many tasks wait to be acknowledged by Kafka", retry_after=self._timeout
            ) from None
        except KafkaException as exception:
            raise _refusal(kafka_error(exception)) from exception
        try:
            return await asyncio.wait_for(answer, self._timeout + _MARGIN)
        except TimeoutError:
            raise _unsure(f"no answer within {self._timeout + _MARGIN:.0f} s") from None

    def _collect(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the thread: callbacks run inside ``poll``, so ``_settled`` is this thread's alone."""
        while not self._stop.is_set():
            self._producer.poll(_POLL)
            self._hand_over(loop)
        self._producer.flush(self._timeout)
        self._hand_over(loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._settled:
            lot, self._settled = self._settled, []
            loop.call_soon_threadsafe(_settle, lot)


def _settle(lot: list[_Settled]) -> None:
    for answer, outcome in lot:
        if answer.done():
            continue
        if isinstance(outcome, Accepted):
            answer.set_result(outcome)
        else:
            answer.set_exception(outcome)


def _outcome(error: KafkaError | None, message: Message) -> Accepted | TallystreamError:
    if error is not None:
        return _refusal(error)
    place: Any = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
    return Accepted(*place)


def _refusal(error: KafkaError) -> TallystreamError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return PayloadTooLargeError("prompt is too large for Kafka", field="prompt")
    return _unsure(error.str())


def _unsure(why: str) -> BrokerDownError:
    return BrokerDownError(
        f"Kafka has not acknowledged this ({why}), and may have taken it all the same; with an Idempotency-Key "
        "a task that is posted again is the same task"
    )
