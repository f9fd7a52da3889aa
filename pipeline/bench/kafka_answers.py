"""Answers that are records: their keys are the requests' ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from confluent_kafka import TopicPartition

from pipeline.kafka.clients import assigned_consumer, patiently, poll_many
from pipeline.settings import Settings

_MOST = 500


class KafkaAnswers:
    """Follows one topic from now on."""

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        self._consumer = assigned_consumer(settings, enable_partition_eof=False)
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        for place in places:
            place.offset = patiently(partial(self._consumer.get_watermark_offsets, place, timeout=10))[1]
        self._consumer.assign(places)

    def read(self, timeout: float) -> Sequence[str]:
        return [
            key.decode()
            for message in poll_many(self._consumer, _MOST, timeout)
            if message.error() is None and isinstance(key := message.key(), bytes)
        ]

    def close(self) -> None:
        self._consumer.close()
