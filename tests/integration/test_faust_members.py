"""How a Faust agent's consumer keeps its place in its group."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
from aiokafka.errors import KafkaError

from pipeline.admin import create_topics
from pipeline.kafka import faust_app
from pipeline.settings import Settings
from pipeline.topics import CONTROL

pytestmark = pytest.mark.integration


async def assigned_once(consumer: Any) -> None:
    """Start it, wait until it has partitions, stop it."""
    start = asyncio.create_task(consumer.start())
    try:
        async with asyncio.timeout(60):
            while not consumer.assignment():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
    finally:
        start.cancel()
        await consumer.stop()


async def test_a_member_joins_again_after_an_error_that_nobody_asks_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the broker has just come back and its coordinator is still loading the group."""
    create_topics(settings.model_copy(update={"shards": 2}))  # as every test of this Kafka has them
    answers: list[str] = []
    sync: Any = CoordinatorGroupRebalance._send_sync_group_request

    async def first_fails(self: Any, request: Any) -> Any:
        answers.append("loading" if not answers else "assignment")
        if answers == ["loading"]:
            self._coordinator.request_rejoin()
            raise KafkaError("GroupLoadInProgressError")
        return await sync(self, request)

    monkeypatch.setattr(CoordinatorGroupRebalance, "_send_sync_group_request", first_fails)
    consumer: Any = AIOKafkaConsumer(
        CONTROL, bootstrap_servers=settings.bootstrap, group_id=f"{settings.app}-faust"
    )
    await assigned_once(consumer)
    assert isinstance(consumer._coordinator, faust_app.PatientCoordinator)
    assert answers == ["loading", "assignment"]


async def test_a_static_member_that_the_broker_knows_by_an_id_it_was_never_told_joins_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the broker dies between taking a member in and answering it."""
    create_topics(settings.model_copy(update={"shards": 2}))  # as every test of this Kafka has them
    group, instance = f"{settings.app}-static", "slot-0"
    ids: list[str] = []
    joined: Any = CoordinatorGroupRebalance.perform_group_join

    async def under_a_lost_id(self: Any) -> Any:
        if not ids:
            self._coordinator.member_id = "an-id-of-before"
        ids.append(self._coordinator.member_id)
        return await joined(self)

    def member() -> Any:
        return AIOKafkaConsumer(
            CONTROL, bootstrap_servers=settings.bootstrap, group_id=group, group_instance_id=instance
        )

    first = member()
    async with asyncio.timeout(60):
        await first.start()  # the broker knows the instance from here on
    monkeypatch.setattr(CoordinatorGroupRebalance, "perform_group_join", under_a_lost_id)
    try:
        await assigned_once(member())
    finally:
        await first.stop()
    assert ids[:2] == ["an-id-of-before", ""]
