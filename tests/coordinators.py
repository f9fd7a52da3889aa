"""Kafka's coordinators, which load when they are first asked: a new broker refuses a commit until then."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.eventually import eventually

_GROUPS = [f"nobody-{number}" for number in range(40)]
"""So many names that each partition of the groups' topic has one."""


def load_coordinators(bootstrap: str) -> None:
    """Return when every group has a coordinator that serves it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def loaded() -> bool:
        asked: dict[str, Future[Any]] = admin.describe_consumer_groups(_GROUPS, request_timeout=30)
        return all(map(_serves, asked.values()))

    eventually(loaded, every=0.1)


def _serves(answer: Future[Any]) -> bool:
    try:
        answer.result()
    except KafkaException:
        return False
    return True
