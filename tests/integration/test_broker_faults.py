"""Three brokers, each killed in turn, then all of them at once: what a broker has acknowledged is delivered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

from pipeline.chaos.mending import Mender
from pipeline.events import Callback, Mode
from pipeline.kafka.clients import admin_client
from pipeline.topics import declared_topics
from tests.integration.asker import Asker
from tests.integration.counting import batched_once, once_each, recorded_callbacks
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

_NODES = 3
_DARK = 20.0
"""Seconds without any broker."""
_PATIENT = 45.0
"""Seconds after which it is looked whether Kafka has forgotten a transaction."""
_LOT = 8
_PROMPT = "answers=7,7,7,7,8"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPipeline]:
    """Every group's and every transactional id's coordinator is one of the three, so each is met."""
    with own_pipeline(tmp_path_factory.mktemp("agents"), nodes=_NODES, shards=1) as pipeline:
        yield pipeline


def test_brokers_die_and_nothing_that_was_accepted_is_lost_or_doubled(pipeline: OwnPipeline) -> None:
    with Asker(pipeline.settings) as asker:
        asked = _ask(pipeline, asker)
        asker.finals(asked)
        for node in range(1, _NODES + 1):
            asked += _ask(pipeline, asker)
            pipeline.broker.kill(node)
            asked += _ask(pipeline, asker)
            asker.finals(asked)  # two of three are enough
            pipeline.broker.start()
            _until_in_sync(pipeline, asker)
        asked += _ask(pipeline, asker)
        for node in range(1, _NODES + 1):
            pipeline.broker.kill(node)
        time.sleep(_DARK)
        pipeline.broker.start()
        asked += _ask(pipeline, asker)
        _until_ended(pipeline, asker, asked)
        once_each(asker, asked)
        batched_once(pipeline.settings, asked)
        recorded_callbacks(asker, asked)
        assert not asker.dead
        print("ends of agents:", pipeline.exits)
        for request_id in asked:
            assert pipeline.receiver.verified(request_id, "done")


def test_every_topic_has_three_copies_of_which_two_must_have_it(pipeline: OwnPipeline) -> None:
    """The aggregator's changelog and Kafka's own topics of offsets and transactions among them."""
    admin: Any = admin_client(pipeline.settings)
    topics = admin.list_topics(timeout=30).topics
    declared = {spec.name for spec in declared_topics(pipeline.settings.shards, pipeline.settings.app)}
    wanted = declared | {"__consumer_offsets", "__transaction_state"}
    assert wanted <= set(topics)
    for name in wanted:
        assert {len(partition.replicas) for partition in topics[name].partitions.values()} == {_NODES}, name
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in wanted]
    for resource, config in admin.describe_configs(resources, request_timeout=30).items():
        assert config.result()["min.insync.replicas"].value == "2", resource


def _ask(pipeline: OwnPipeline, asker: Asker) -> list[str]:
    """Requests that Kafka has acknowledged: ``ask`` waits for it."""
    callback = Callback(pipeline.receiver.url)
    return [asker.ask(_PROMPT, mode=Mode.STANDARD, priority=n % 6, callback=callback) for n in range(_LOT)]


def _until_ended(pipeline: OwnPipeline, asker: Asker, asked: list[str]) -> None:
    """While no broker is left, partitions have no leader: there Kafka can forget a transaction (decision 0019).

    Then readers stop before it until it is ended with Kafka's own tool, as the documentation tells who runs it.
    """
    mender, looked_at = Mender(pipeline.broker), time.monotonic()

    def ended() -> bool:
        nonlocal looked_at
        if asker.ended(asked):
            return True
        if time.monotonic() - looked_at > _PATIENT:
            print("Kafka has forgotten transactions:", mender.mend() or mender.end_hanging())
            looked_at = time.monotonic()
        return False

    asker.until(ended, "final results")


def _until_in_sync(pipeline: OwnPipeline, asker: Asker) -> None:
    admin: Any = admin_client(pipeline.settings)

    def in_sync() -> bool:
        topics = admin.list_topics(timeout=30).topics.values()
        return all(len(p.isrs) == _NODES for topic in topics for p in topic.partitions.values())

    asker.until(in_sync, "every copy to be complete again")
