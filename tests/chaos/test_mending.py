"""A Kafka that has not come back whole is told from one that has."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from pipeline.admin import create_topics
from pipeline.chaos.mending import Mender
from pipeline.chaos.probe import names, serves
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings


class Nodes:
    """Three nodes; Kafka serves as soon as the ill one was started again."""

    def __init__(self, ill: int | None) -> None:
        self.ill, self.pids, self.bootstrap = ill, {1: 11, 2: 12, 3: 13}, "nodes"
        self.done: list[str] = []

    def serves(self, bootstrap: str) -> bool:
        assert bootstrap == self.bootstrap
        return self.ill is None

    def kill(self, node: int) -> None:
        self.done.append(f"kill {node}")
        self.ill = None if node == self.ill else self.ill

    def start(self) -> None:
        self.done.append("start")

    def mender(self) -> Mender:
        return Mender(cast(LocalBroker, cast(Any, self)), self.serves)


def test_nodes_are_started_again_until_kafka_serves() -> None:
    nodes = Nodes(ill=2)
    mender = nodes.mender()
    assert mender.mend() and not mender.mend()
    assert (nodes.done, mender.restarts) == (["kill 1", "start", "kill 2", "start"], 2)


def test_a_kafka_that_serves_and_one_of_somebody_else_are_left_alone() -> None:
    nodes = Nodes(ill=None)
    assert not nodes.mender().mend()
    assert nodes.done == []
    assert not Mender(None).mend()


@pytest.mark.integration
def test_names_are_those_of_every_coordinator_and_a_whole_kafka_serves(settings: Settings) -> None:
    create_topics(settings.model_copy(update={"shards": 2}))  # as every test of this Kafka has them
    Producer({"bootstrap.servers": settings.bootstrap, "transactional.id": "first"}).init_transactions(30)
    assert serves(settings.bootstrap)
    states = (
        AdminClient({"bootstrap.servers": settings.bootstrap}).list_topics().topics["__transaction_state"]
    )
    assert len(list(names(len(states.partitions)))) == len(states.partitions) > 1


def test_nobody_serves_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.chaos.probe._TIMEOUT", 0.2)
    assert not serves("127.0.0.1:1")
