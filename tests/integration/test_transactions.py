"""The transactional consumer over rebalances, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import NewTopic

from pipeline.kafka.clients import admin_client, plain_producer, value_of
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.settings import Settings
from tests.integration.group_member import Member
from tests.integration.paused import pause, waiting_processes, wake

pytestmark = pytest.mark.integration


class Owner:
    """Keeps what it is told."""

    def __init__(self, settings: Settings, topic: str, slot: int) -> None:
        self.owned: set[Place] = set()
        self.seen: list[Message] = []
        slotted = settings.model_copy(update={"slot": slot, "session_timeout_ms": 6_000})
        self.consumer = TransactionalConsumer(slotted, role="test", topics=[topic], listener=self)

    def assigned(self, places: Sequence[Place]) -> None:
        self.owned = set(places)

    def revoking(self) -> None: ...

    def rewound(self, places: Sequence[Place]) -> None: ...

    def dropped(self, places: Sequence[Place]) -> None: ...

    def poll(self) -> None:
        for message in self.consumer.poll(0.05):
            self.consumer.track(message, 2)
            self.seen.append(message)


@pytest.fixture
def topic(settings: Settings, topic_prefix: str) -> str:
    name = f"{topic_prefix}work"
    admin = admin_client(settings)
    wanted = [NewTopic(name, 2, 1), NewTopic(f"{name}-out", 1, 1)]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    return name


def until(done: Callable[[], bool], *owners: Owner) -> None:
    deadline = time.monotonic() + 90
    while not done():
        assert time.monotonic() < deadline
        for owner in owners:
            owner.poll()


def test_a_lane_held_over_a_rebalance_is_fetched_again(settings: Settings, topic: str) -> None:
    first = Owner(settings, topic, 0)
    until(lambda: len(first.owned) == 2, first)
    first.consumer.hold(first.owned)
    second = Owner(settings, topic, 1)
    until(lambda: len(first.owned) == 1 and len(second.owned) == 1, first, second)
    first.consumer.hold([])
    producer = plain_producer(settings)
    for partition in (0, 1):
        producer.produce(topic, b"x", b"k", partition)
    producer.flush(30)
    until(lambda: bool(first.seen) and bool(second.seen), first, second)
    first.consumer.close()
    second.consumer.close()


def test_a_successor_skips_exactly_what_was_published(settings: Settings, topic: str) -> None:
    producer = plain_producer(settings)
    for _ in range(3):
        producer.produce(topic, b"x", b"k", 0)
    producer.flush(30)
    owner = Owner(settings, topic, 0)
    until(lambda: len(owner.seen) == 3, owner)
    place = place_of(owner.seen[0])
    sample = Output(topic, 1, b"s", b"sample")
    assert owner.consumer.publish(
        [sample], [Finished(place, 0, 1), Finished(place, 2, 0), Finished(place, 2, 1)]
    )
    owner.consumer.close()
    successor = Owner(settings, topic, 0)
    done: dict[int, int] = {}

    def take() -> bool:
        for message in successor.consumer.poll(0.05):
            if place_of(message) == place:
                done[message.offset() or 0] = successor.consumer.track(message, 2)
        return len(done) == 3

    until(take)
    assert done == {0: 0b10, 1: 0b00, 2: 0b11}
    successor.consumer.close()


@pytest.mark.parametrize("how", ["finishing", "between"])
def test_a_paused_member_that_wakes_publishes_nothing(settings: Settings, topic: str, how: str) -> None:
    """``between``: it writes something that moves no position, as the outcome of an attempt does."""
    producer = plain_producer(settings)
    producer.produce(topic, b"x", b"k", 1)
    producer.flush(30)
    out = f"{topic}-out"
    short = {"TALLYSTREAM_SESSION_TIMEOUT_MS": "6000"}
    with waiting_processes(settings, "tests.integration.group_member") as start:
        paused = start(topic, out, how, **short)
        pause(paused)
        successor = Member(settings.model_copy(update={"slot": 1, "session_timeout_ms": 6_000}), topic)
        deadline = time.monotonic() + 90
        while not successor.seen:
            assert time.monotonic() < deadline
            successor.poll()
        assert successor.publish(out, b"successor", finishes=True)
        assert wake(paused) == "refused"
    assert [value_of(message) for message in read_back(settings, [(out, 0)])] == [b"successor"]
    successor.consumer.close()
