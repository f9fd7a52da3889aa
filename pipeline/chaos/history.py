"""Keeps every record of the compacted topics for the audit: Kafka would drop older ones of a key in a long run."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka.admin import (
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
)

from pipeline.kafka.clients import admin_client
from pipeline.settings import Settings
from pipeline.topics import DELIVERIES, RESULTS

_TIMEOUT = 30.0
_LONGER_THAN_ANY_RUN_MS = 7 * 24 * 3_600_000


def keep_history(settings: Settings) -> None:
    """Compact nothing of what the audit reads.

    Raises:
        KafkaException: refused, or no answer.
    """
    admin: Any = admin_client(settings)
    entry = ConfigEntry(
        "min.compaction.lag.ms",
        str(_LONGER_THAN_ANY_RUN_MS),
        incremental_operation=AlterConfigOpType.SET,
    )
    wanted = [
        ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        for name in (RESULTS, DELIVERIES)
    ]
    outcomes = cast(
        "dict[ConfigResource, Future[Any]]", admin.incremental_alter_configs(wanted, request_timeout=_TIMEOUT)
    )
    for outcome in outcomes.values():
        outcome.result()
