"""Asking over Kafka: produce requests, follow what becomes of them, stop them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import KafkaError, Message, TopicPartition

from pipeline.errors import BrokerDownError, DecodeError, PayloadTooLargeError
from pipeline.events import Control, Event, InferenceRequest
from pipeline.kafka.clients import (
    assigned_consumer,
    plain_producer,
    poll_many,
    value_of,
    write,
)
from pipeline.kafka.codec import Codec
from pipeline.kafka.places import end_offsets, first_offsets, partitions_of
from pipeline.kafka.records import Output
from pipeline.scheduling.validate import check_content, check_identity, check_run
from pipeline.settings import Settings
from pipeline.topics import CONTROL, REQUESTS, request_partition
from pipeline.tracing.spans import current, headers_of

_PATIENCE = 60.0
"""Seconds that a broker which has just started may take to know where its topics end."""

Delivered = Callable[[str, KafkaError | None], None]
"""Called with the request's id and the broker's refusal, if it refused."""


class RequestProducer:
    """Produces requests where their priority and id put them."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._settings, self._codec = settings, codec
        self._producer = plain_producer(settings)

    def send(self, request: InferenceRequest, delivered: Delivered | None = None) -> None:
        """Queue a request; ``flush`` waits for the broker.

        Raises:
            InvalidRequestError: names the field; nothing was sent.
            PayloadTooLargeError: its record would be larger than Kafka takes.
        """
        record = request_record(self._settings, self._codec, request)

        def told(error: KafkaError | None, _: Message) -> None:
            if delivered is not None:
                delivered(request.request_id, error)

        write(self._producer, record, on_delivery=told)
        self._producer.poll(0)

    def flush(self, timeout: float = 30.0) -> None:
        """Wait until the broker has everything.

        Raises:
            BrokerDownError: it has not within ``timeout`` seconds.
        """
        if left := self._producer.flush(timeout):
            raise BrokerDownError(f"{left} requests are not acknowledged by Kafka after {timeout:.0f} s")


def request_record(settings: Settings, codec: Codec, request: InferenceRequest) -> Output:
    """The record of a request that will not be refused later; it goes on with the trace that runs now, if one does.

    Raises:
        InvalidRequestError: names the field.
        PayloadTooLargeError: it would be larger than Kafka takes.
    """
    check_identity(request)
    check_content(request, settings.limits)
    value = codec.encode(request)
    most = settings.limits.max_record_bytes
    if len(value) > most:
        raise PayloadTooLargeError(
            f"prompt is too large: the record has {len(value):,} bytes, at most {most:,} are taken",
            field="prompt",
        )
    partition = request_partition(request.request_id, request.priority, settings.shards)
    return Output(REQUESTS, partition, request.request_id.encode(), value, headers=headers_of(current()))


def control_record(codec: Codec, word: Control) -> Output:
    """The record of a word on ``control``.

    Raises:
        InvalidRequestError: no request has such an id.
    """
    check_run(word.request_id, word.run)
    return Output(CONTROL, 0, word.request_id.encode(), codec.encode(word))


def send_control(settings: Settings, codec: Codec, words: Sequence[Control], timeout: float = 30.0) -> None:
    """Write to ``control``; returns when the broker has all of it.

    In no transaction, unlike what other commands write: an order that comes twice does no harm, and two people who
    cancel at the same time must not fence each other.

    Raises:
        InvalidRequestError: no request has such an id; nothing was sent.
        BrokerDownError: it has not within ``timeout`` seconds, or refuses.
    """
    records = [control_record(codec, word) for word in words]
    producer = plain_producer(settings)
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        write(producer, record, on_delivery=delivered)
    if left := producer.flush(timeout):
        raise BrokerDownError(
            f"{left} words on {CONTROL} are not acknowledged by Kafka after {timeout:.0f} s"
        )
    if refused:
        raise BrokerDownError(f"Kafka refused a word on {CONTROL}: {refused[0].str()}")


class TopicFollower:
    """Reads topics from now on, or from their start, and yields events."""

    def __init__(
        self, settings: Settings, codec: Codec, topics: Sequence[str], *, from_start: bool = False
    ) -> None:
        """
        Raises:
            BrokerDownError: Kafka can not be reached.
        """
        self._codec = codec
        self._consumer = assigned_consumer(settings, enable_partition_eof=False)
        places = partitions_of(self._consumer, topics, where=settings.bootstrap)
        offsets = (first_offsets if from_start else end_offsets)(self._consumer, places, _PATIENCE)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])

    def read(self, timeout: float) -> Iterator[tuple[str, Event]]:
        """Topic and event of each record that comes within ``timeout`` seconds; stops after the first lot."""
        for message in poll_many(self._consumer, 500, timeout):
            if message.error() is not None or message.value() is None:
                continue
            try:
                yield message.topic() or "", self._codec.decode(value_of(message))
            except DecodeError:
                continue  # somebody else's record; the hop that owns it reports it

    def until(self, done: Callable[[str, Event], bool], *, deadline: float) -> bool:
        """Read until ``done`` says so; ``False`` when ``deadline`` (monotonic seconds) came first."""
        while time.monotonic() < deadline:
            for topic, event in self.read(0.1):
                if done(topic, event):
                    return True
        return False

    def close(self) -> None:
        self._consumer.close()
