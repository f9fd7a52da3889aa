"""How clients of librdkafka are configured: one place, so that every hop waits and fails alike."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from pipeline.errors import BrokerDownError
from pipeline.kafka.records import Output
from pipeline.kafka.security import librdkafka_security
from pipeline.settings import Settings

MAX_MESSAGE_BYTES = 6 * 1024 * 1024
"""Above every topic's own limit, so that the topic decides."""
READER = "reader"
"""Named as their group by consumers that have none: librdkafka looks for its coordinator all the same."""
_FOR_GOOD = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_T = TypeVar("_T")
Config = dict[str, Any]


def base_config(settings: Settings) -> Config:
    """What every client shares.

    Raises:
        ConfigError: the settings of Kafka's security are wrong.
    """
    return {
        "bootstrap.servers": settings.bootstrap,
        "logger": logging.getLogger("rdkafka"),
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 2_000,
        **librdkafka_security(settings.kafka),
    }


def transactional_producer(settings: Settings, transactional_id: str) -> Producer:
    """A producer that writes in transactions.

    A small retry back-off matters: transactions back to back meet CONCURRENT_TRANSACTIONS, and the
    default of 100 ms is then the latency of every hop.
    """
    return Producer(
        base_config(settings)
        | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": settings.transaction_timeout_ms,
            "acks": "all",
            "linger.ms": 0,
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 200,
            "message.max.bytes": MAX_MESSAGE_BYTES,
        }
    )


def plain_producer(settings: Settings, **extra: Any) -> Producer:
    """An idempotent producer outside of transactions: for request producers and tools."""
    config = {
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
        "message.max.bytes": MAX_MESSAGE_BYTES,
    }
    return Producer(base_config(settings) | config | {key.replace("_", "."): v for key, v in extra.items()})


def group_consumer(settings: Settings, group: str, instance: str) -> Consumer:
    """A consumer of a group with static membership, reading only what is committed.

    The fetch queue is short: the backlog belongs in Kafka, where it can be served by weight.
    """
    return Consumer(
        base_config(settings)
        | {
            "group.id": group,
            "group.instance.id": instance,
            "partition.assignment.strategy": "range",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": settings.session_timeout_ms,
            "max.poll.interval.ms": settings.max_poll_interval_ms,
            "heartbeat.interval.ms": max(settings.session_timeout_ms // 4, 300),
            "queued.min.messages": 64,
            "queued.max.messages.kbytes": 16_384,
            "fetch.queue.backoff.ms": 10,
            "fetch.error.backoff.ms": 50,
        }
    )


def assigned_consumer(settings: Settings, **extra: Any) -> Consumer:
    """A consumer without a group, for reading given partitions from given offsets."""
    config = {
        "group.id": f"{settings.app}-{READER}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "fetch.error.backoff.ms": 50,
    }
    return Consumer(base_config(settings) | config | {key.replace("_", "."): v for key, v in extra.items()})


def poll_many(consumer: Consumer, limit: int, timeout: float) -> list[Message]:
    """Wait for one message, then take what else is there; ``consume`` alone waits for the whole lot.

    Args:
        timeout: seconds to wait for the first.
    """
    first = consumer.poll(timeout)
    return [] if first is None else [first, *consumer.consume(limit - 1, timeout=0)]


def patiently(call: Callable[[], _T], *, deadline: float = 60.0) -> _T:
    """Repeat a call that asks Kafka something until it answers.

    Args:
        deadline: seconds after which the broker counts as down.

    Raises:
        BrokerDownError: it has not answered by then, or refuses for good.
    """
    until = time.monotonic() + deadline
    while True:
        try:
            return call()
        except KafkaException as exception:
            error = kafka_error(exception)
            if time.monotonic() > until or error.fatal() or error.code() in _FOR_GOOD:
                raise BrokerDownError(error.str()) from exception
            time.sleep(0.05)


def repeat(call: Callable[[], None], until: float) -> None:
    """Make one call of a transaction, again and again while librdkafka says that the same call may be repeated.

    Args:
        until: on the monotonic clock, in seconds; then its last error is raised.

    Raises:
        KafkaException: the call failed for good, or still fails.
    """
    while True:
        try:
            return call()
        except KafkaException as exception:
            if not kafka_error(exception).retriable() or time.monotonic() > until:
                raise


def write(producer: Producer, out: Output, **more: Any) -> None:
    """Queue a record; waits while the producer's queue is full.

    Args:
        more: for ``produce``, as ``on_delivery``.
    """
    while True:
        try:
            producer.produce(out.topic, out.value, out.key, out.partition, headers=list(out.headers), **more)
            return
        except BufferError:
            producer.poll(0.1)


def value_of(message: Message) -> bytes:
    """A record's value; a tombstone has none and gives no bytes, which is no event of ours."""
    value = message.value()
    return value if isinstance(value, bytes) else b""


def admin_client(settings: Settings) -> AdminClient:
    return AdminClient(base_config(settings))


def kafka_error(exception: KafkaException) -> KafkaError:
    """The error inside a KafkaException, which says what may be done about it."""
    error = exception.args[0]
    assert isinstance(error, KafkaError)
    return error
