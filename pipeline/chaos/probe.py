"""Whether Kafka itself is whole: clients of our own join a group and begin a transaction at every coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from pipeline.topics import CONTROL

_TIMEOUT = 8.0
_GROUPS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def serves(bootstrap: str) -> bool:
    """Whether every group coordinator takes a member and every transaction coordinator a producer."""
    base = {"bootstrap.servers": bootstrap, "log_level": 0}
    try:
        asking = Consumer(base | {"group.id": "probe"})
        topics = asking.list_topics(timeout=_TIMEOUT).topics
        for name in names(len(topics[_TRANSACTIONS].partitions) if _TRANSACTIONS in topics else 0):
            Producer(base | {"transactional.id": name}).init_transactions(_TIMEOUT)
    except KafkaException:
        return False
    groups = names(len(topics[_GROUPS].partitions) if _GROUPS in topics else 0)
    return all(_joins(Consumer(base | {"group.id": name})) for name in groups)


def names(partitions: int) -> Iterator[str]:
    """For each partition of a coordinator's topic a name whose coordinator it holds."""
    for partition in range(partitions):
        candidates = (f"probe-{number}" for number in count())
        yield next(name for name in candidates if partition_of(name, partitions) == partition)


def partition_of(name: str, partitions: int) -> int:
    """Where the coordinator of a group or of a transactional id keeps it.

    Kafka takes the name's Java hash code, without its sign, modulo the number of partitions.
    """
    return abs(_hash(name)) % partitions


def _hash(text: str) -> int:
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def _joins(consumer: Consumer) -> bool:
    joined: list[TopicPartition] = []

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        joined.extend(partitions)

    try:
        consumer.subscribe([CONTROL], on_assign=assigned)
        deadline = time.monotonic() + _TIMEOUT
        while not joined and time.monotonic() < deadline:
            consumer.poll(0.1)
    finally:
        consumer.close()
    return bool(joined)
