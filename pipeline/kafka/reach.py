"""Whether Kafka can be reached, and if not, why: a wrong password is no broker that is down."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.kafka.clients import kafka_error

_TELLING = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # pyright: ignore[reportPrivateUsage]


def unreached(config: dict[str, Any], brokers: int, timeout: float) -> str | None:
    """Why fewer than so many brokers answer within ``timeout`` seconds; ``None`` if they do."""
    told: list[KafkaError] = []
    quiet: Any = {"error_cb": told.append, "logger": logging.getLogger("rdkafka.reach"), "log_level": 0}
    admin = AdminClient(config | {"reconnect.backoff.max.ms": 200} | quiet)
    try:
        found = len(admin.list_topics(timeout=timeout).brokers)
    except KafkaException as exception:
        admin.poll(0)
        telling = [error for error in told if error.code() in _TELLING]
        return (telling[-1] if telling else kafka_error(exception)).str()
    return None if found >= brokers else f"{found} of {brokers} brokers answer"
