"""Making the topics, and saying where a broker's differ from the declaration."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
)

from pipeline.errors import BrokerDownError, ConfigError
from pipeline.kafka.clients import admin_client, kafka_error
from pipeline.settings import Settings
from pipeline.topics import TopicSpec, declared_topics

_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class TopicReport:
    """What ``create_topics`` found and did; ``differences`` are sentences for a person."""

    created: tuple[str, ...]
    present: tuple[str, ...]
    differences: tuple[str, ...]


def create_topics(settings: Settings) -> TopicReport:
    """Create what is missing; change nothing that is there.

    Raises:
        BrokerDownError: Kafka can not be reached.
        ConfigError: Kafka refuses a topic; names it and says why.
    """
    admin: Any = admin_client(settings)
    declared = declared_topics(settings.shards, settings.app)
    present = _partition_counts(admin, settings)
    missing = [spec for spec in declared if spec.name not in present]
    new = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=settings.replication,
            config=spec.config,
        )
        for spec in missing
    ]
    created: list[str] = []
    outcomes = cast(
        "dict[str, Future[Any]]", admin.create_topics(new, request_timeout=_TIMEOUT) if new else {}
    )
    for name, outcome in outcomes.items():
        try:
            outcome.result()
            created.append(name)
        except KafkaException as exception:
            if kafka_error(exception).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConfigError(f"topic {name}: {kafka_error(exception).str()}") from exception
    there = [spec for spec in declared if spec not in missing]
    return TopicReport(
        created=tuple(created),
        present=tuple(spec.name for spec in there),
        differences=tuple(_differences(admin, there, present)),
    )


def check_topics(settings: Settings) -> tuple[str, ...]:
    """What is missing or differs from the declaration, as sentences; changes nothing.

    Raises:
        BrokerDownError: Kafka can not be reached.
    """
    admin: Any = admin_client(settings)
    present = _partition_counts(admin, settings)
    declared = declared_topics(settings.shards, settings.app)
    missing = [f"{spec.name} is missing" for spec in declared if spec.name not in present]
    there = [spec for spec in declared if spec.name in present]
    return (*missing, *_differences(admin, there, present))


def _partition_counts(admin: Any, settings: Settings) -> dict[str, int]:
    try:
        topics = admin.list_topics(timeout=10).topics
    except KafkaException as exception:
        raise BrokerDownError(
            f"no Kafka at {settings.bootstrap}: {kafka_error(exception).str()}"
        ) from exception
    return {name: len(topic.partitions) for name, topic in topics.items()}


def _differences(admin: Any, specs: Sequence[TopicSpec], counts: dict[str, int]) -> list[str]:
    found: list[str] = []
    if not specs:
        return found
    resources = {ConfigResource(ConfigResource.Type.TOPIC, spec.name): spec for spec in specs}
    described = cast(
        "dict[ConfigResource, Future[Any]]", admin.describe_configs(list(resources), request_timeout=_TIMEOUT)
    )
    for resource, outcome in described.items():
        spec, actual = resources[resource], outcome.result()
        if counts[spec.name] != spec.partitions:
            found.append(f"{spec.name}: {counts[spec.name]} partitions, declared {spec.partitions}")
        for name, wanted in spec.config.items():
            value = actual[name].value if name in actual else None
            if _parts(value) != _parts(wanted):
                found.append(f"{spec.name}: {name} is {value}, declared {wanted}")
    return found


def _parts(value: str | None) -> frozenset[str]:
    return frozenset((value or "").split(","))
