"""Which partitions topics have, and where those begin and end: one question a broker, however many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from pipeline.errors import BrokerDownError
from pipeline.kafka.clients import kafka_error, patiently
from pipeline.kafka.records import Place

_TIMEOUT: Final = 5.0
_FIRST, _END = -2, -1
"""Times that Kafka's ListOffsets takes for the first offset, and for the one behind the last."""


def partitions_of(consumer: Consumer, topics: Sequence[str], *, where: str) -> list[Place]:
    """Every partition of these topics.

    Args:
        where: the address at which Kafka is asked.

    Raises:
        BrokerDownError: Kafka does not answer, or has no such topic.
    """
    try:
        found = {topic: consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic] for topic in topics}
    except KafkaException as exception:
        raise BrokerDownError(f"no Kafka at {where}: {kafka_error(exception).str()}") from exception
    for topic, metadata in found.items():
        if metadata.error is not None:
            raise BrokerDownError(f"topic {topic}: {metadata.error.str()}; run: tallystream topics create")
    return [(topic, partition) for topic in topics for partition in sorted(found[topic].partitions)]


def first_offsets(consumer: Consumer, places: Sequence[Place], patience: float = 10.0) -> dict[Place, int]:
    """The oldest offset that each partition still has.

    Args:
        patience: seconds.

    Raises:
        BrokerDownError: Kafka does not answer.
    """
    return _offsets(consumer, places, _FIRST, patience)


def end_offsets(consumer: Consumer, places: Sequence[Place], patience: float = 10.0) -> dict[Place, int]:
    """The offset behind the last record; of what is committed, if that is all that the consumer reads.

    Args:
        patience: seconds.

    Raises:
        BrokerDownError: Kafka does not answer.
    """
    return _offsets(consumer, places, _END, patience)


def _offsets(consumer: Consumer, places: Sequence[Place], when: int, patience: float) -> dict[Place, int]:
    timeout = min(patience, _TIMEOUT)

    def asked() -> dict[Place, int]:
        found = consumer.offsets_for_times(
            [TopicPartition(*place, when) for place in places], timeout=timeout
        )
        for tp in found:
            if tp.error is not None:
                raise KafkaException(tp.error)
        return {(tp.topic, tp.partition): tp.offset for tp in found}

    return patiently(asked, deadline=patience)
