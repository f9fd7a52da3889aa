"""The fenced sink with two live owners: a process is paused, another takes over, and the first one wakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

from pipeline.errors import FencedError
from pipeline.kafka.clients import admin_client, transactional_producer, value_of
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from tests.integration.paused import Start, pause, waiting_processes, wake
from tests.integration.sink_owner import open_sink, thing

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(settings: Settings, topic_prefix: str) -> str:
    admin = admin_client(settings)
    for made in admin.create_topics([NewTopic(f"{topic_prefix}out", 1, 1)]).values():
        made.result(60)
    return f"{topic_prefix}out"


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    with waiting_processes(settings, "tests.integration.sink_owner") as start:
        yield start


def written(settings: Settings, topic: str) -> list[bytes]:
    return [value_of(message) for message in read_back(settings, [(topic, 0)])]


@pytest.mark.parametrize("where", ["before", "within"])
def test_a_paused_owner_that_wakes_writes_nothing(
    settings: Settings, topic: str, start: Start, where: str
) -> None:
    """``within``: its transaction is open, with everything written, when the other one takes over."""
    paused = start(topic, where)
    pause(paused)
    successor = open_sink(settings, (topic, 0))
    assert not successor.has(("thing", "x"))
    assert successor.emit([thing((topic, 0), "x")]) == 1
    assert wake(paused) == "fenced"
    assert written(settings, topic) == [b"x"]
    assert successor.emit([thing((topic, 0), "x"), thing((topic, 0), "y")]) == 1
    assert written(settings, topic) == [b"x", b"y"]
    successor.close()


def test_an_owner_that_nobody_relieved_goes_on_when_it_wakes(
    settings: Settings, topic: str, start: Start
) -> None:
    owner = start(topic, "before")
    pause(owner)
    assert wake(owner) == "wrote 2"
    assert written(settings, topic) == [b"x", b"mine"]


def test_a_successor_knows_what_was_written(settings: Settings, topic: str) -> None:
    first = open_sink(settings, (topic, 0))
    assert first.emit([thing((topic, 0), "x"), thing((topic, 0), "x")]) == 1
    second = open_sink(settings, (topic, 0))
    assert second.has(("thing", "x"))
    assert second.emit([thing((topic, 0), "x")]) == 0
    with pytest.raises(FencedError):
        first.emit([thing((topic, 0), "z")])
    second.close()
    assert written(settings, topic) == [b"x"]


def test_what_stands_behind_an_open_transaction_is_read_back_too(settings: Settings, topic: str) -> None:
    """Another writer died in its transaction: until the broker ends it, nothing behind it is stable."""
    stranger = transactional_producer(
        settings.model_copy(update={"transaction_timeout_ms": 1_000}), f"{settings.app}-stranger"
    )
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(topic, b"never", partition=0)
    assert stranger.flush(30) == 0
    first = open_sink(settings, (topic, 0))
    assert first.emit([thing((topic, 0), "x")]) == 1
    second = open_sink(settings, (topic, 0))
    assert second.has(("thing", "x"))
    second.close()
