"""A transaction that Kafka has forgotten is found and ended, and readers go on behind it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.chaos.hanging import Hanging, end_hanging
from pipeline.chaos.mending import Mender
from pipeline.chaos.probe import partition_of
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import load_settings
from tests.eventually import eventually

pytestmark = pytest.mark.integration

TOPIC, GROUP, STATES = "hangs", "hangs", "__transaction_state"


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(load_settings().home) as broker:
        yield broker


def _begin(bootstrap: str, name: str) -> Producer:
    """A transaction with a record and an offset, left open."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, name.encode(), partition=0)
    producer.flush(30)
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 7)], reader.consumer_group_metadata(), 30)
    reader.close()
    return producer


def _forget(broker: LocalBroker, name: str) -> None:
    """Delete what the coordinator knows of a transaction; it is read again when the node starts."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    partitions = len(admin.list_topics(timeout=30).topics[STATES].partitions)
    # Kafka lets only its own administrative client write to its own topics.
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "__admin_client"})
    key = struct.pack(">hh", 0, len(name)) + name.encode()
    producer.produce(STATES, None, key, partition=partition_of(name, partitions))
    assert producer.flush(30) == 0
    broker.kill()
    broker.start()


def _committed(bootstrap: str) -> list[bytes | None]:
    """What a reader of committed records finds before the first that is still open."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "any", "isolation.level": "read_committed"}
    )
    try:
        _, end = reader.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
        reader.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes | None] = []
        while max(reader.position([TopicPartition(TOPIC, 0)])[0].offset, 0) < end:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found
    finally:
        reader.close()


def test_a_transaction_that_kafka_forgot_is_ended_and_one_that_it_knows_is_not(broker: LocalBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    forgotten = _begin(broker.bootstrap, "forgotten")
    _forget(broker, "forgotten")
    behind = Producer({"bootstrap.servers": broker.bootstrap})
    behind.produce(TOPIC, b"behind", partition=0)
    assert behind.flush(30) == 0
    known = _begin(broker.bootstrap, "known")

    assert _committed(broker.bootstrap) == []
    ended = end_hanging(broker)
    assert {found.topic for found in ended} == {TOPIC, "__consumer_offsets"}
    assert Hanging(TOPIC, 0, 0) in ended
    assert end_hanging(broker) == []

    known.commit_transaction(30)
    eventually(lambda: _committed(broker.bootstrap) == [b"behind", b"known"])
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})
    assert [each.offset for each in reader.committed([TopicPartition(TOPIC, 0)], timeout=30)] == [7]
    reader.close()
    del forgotten


def test_a_kafka_of_somebody_else_is_not_looked_at(tmp_path: Path) -> None:
    mender = Mender(None)
    assert not mender.end_hanging() and mender.hanging == 0
