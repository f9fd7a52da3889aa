"""What a long run must not lose before it is audited."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

from pipeline.admin import create_topics
from pipeline.chaos.collect import AUDITED
from pipeline.chaos.history import keep_history
from pipeline.kafka.clients import admin_client
from pipeline.settings import Settings
from pipeline.topics import declared_topics
from tests.eventually import eventually

pytestmark = pytest.mark.integration


def test_no_compacted_topic_that_is_audited_loses_a_record(settings: Settings) -> None:
    settings = settings.model_copy(update={"shards": 2})  # as every test of this Kafka has them
    create_topics(settings)
    keep_history(settings)
    admin: Any = admin_client(settings)
    resources = [
        ConfigResource(ConfigResource.Type.TOPIC, spec.name)
        for spec in declared_topics(2, settings.app)
        if "compact" in spec.config["cleanup.policy"] and spec.name in AUDITED
    ]
    assert {resource.name for resource in resources} == {"results", "deliveries"}

    def shortest() -> int:
        described = admin.describe_configs(resources, request_timeout=30).values()
        return min(int(one.result()["min.compaction.lag.ms"].value) for one in described)

    eventually(lambda: shortest() >= 24 * 3_600_000)  # the broker answers before all of it knows
