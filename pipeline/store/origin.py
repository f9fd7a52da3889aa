"""Which events the view takes from which topic, and how its source is told from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from pipeline.errors import BrokerDownError, DecodeError, InvalidRequestError
from pipeline.events import Delivery, Event, Opened, Result, Sample
from pipeline.kafka.clients import kafka_error
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source, decode_record
from pipeline.scheduling.validate import check_routed, check_run
from pipeline.settings import Settings
from pipeline.topics import DEAD_LETTERS, DELIVERIES, REQUESTS, RESULTS, SAMPLES

TOPICS: Final = (REQUESTS, SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS)

_TIMEOUT = 10.0


def event_of(codec: Codec, source: Source, shards: int) -> Event | None:
    """The event of a record; ``None`` when it is none that belongs there, which its hop tells of.

    Raises:
        RegistryDownError: that can not be said now.
    """
    try:
        event = decode_record(codec, source)
        match source.topic, event:
            case (topic, _) if topic == REQUESTS:
                return check_routed(event, source.partition, shards)
            case (topic, Opened() | Sample()) if topic == SAMPLES:
                check_run(event.request_id, event.run)
            case (topic, Result()) if topic == RESULTS:
                check_run(event.request_id, event.run)
            case (topic, Delivery()) if topic == DELIVERIES:
                check_run(event.request_id, event.run)
            case _:
                return None
    except (DecodeError, InvalidRequestError):
        return None
    return event


def source_of(consumer: Consumer, admin: AdminClient, settings: Settings) -> str:
    """Names the cluster and its topics: one that was made again under its old name has another.

    Raises:
        BrokerDownError: Kafka does not answer.
    """
    try:
        # Asked first, and not the admin client, which can abort the process while Kafka is away.
        cluster = consumer.list_topics(REQUESTS, timeout=_TIMEOUT).cluster_id
        ids = _topic_ids(admin, TOPICS)
    except KafkaException as exception:
        raise BrokerDownError(f"Kafka does not answer: {kafka_error(exception).str()}") from exception
    return " ".join([str(cluster), str(settings.shards), *ids])


def _topic_ids(admin: Any, topics: Sequence[str]) -> list[str]:
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT)
    return [str(described[topic].result().topic_id) for topic in topics]
