"""Members that come and go while work is in flight: no sample is lost, none is there twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import NewTopic

from pipeline.events import Mode, Sample
from pipeline.kafka.clients import admin_client, group_consumer, patiently, plain_producer, value_of
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.settings import Settings
from tests.integration.asker import PATIENCE, Asker
from tests.integration.counting import batched_once, begun, once_each
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

_ROWS = 4
_SHARDS = 3


class Member:
    """Takes records, and publishes each under its own name when told; a record is one task."""

    def __init__(self, settings: Settings, topic: str, slot: int, *, last_words: bool = False) -> None:
        self.taken: list[Message] = []
        self.owned: set[Place] = set()
        self._out, self._last_words = f"{topic}-out", last_words
        slotted = settings.model_copy(update={"slot": slot, "session_timeout_ms": 2_000})
        self.consumer = TransactionalConsumer(slotted, role="test", topics=[topic], listener=self)

    def assigned(self, places: Sequence[Place]) -> None:
        self.owned = set(places)

    def revoking(self) -> None:
        if self._last_words:
            self.publish()

    def rewound(self, places: Sequence[Place]) -> None:
        self.taken.clear()

    def dropped(self, places: Sequence[Place]) -> None:
        self.owned.clear()
        self.taken.clear()

    def poll(self) -> None:
        for message in self.consumer.poll(0.05):
            self.consumer.track(message, 1)
            self.taken.append(message)

    def publish(self) -> None:
        outputs = [Output(self._out, 0, b"k", value_of(message)) for message in self.taken]
        finished = [Finished(place_of(message), message.offset() or 0, 0) for message in self.taken]
        if self.consumer.publish(outputs, finished):
            self.taken.clear()


@pytest.fixture
def topic(settings: Settings, topic_prefix: str) -> str:
    name = f"{topic_prefix}work"
    admin = admin_client(settings)
    wanted = [NewTopic(name, 2, 1), NewTopic(f"{name}-out", 1, 1)]
    for outcome in admin.create_topics(wanted).values():
        outcome.result(60)
    return name


def until(done: Callable[[], bool], *members: Member) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        for member in members:
            member.poll()


def send(settings: Settings, topic: str, partition: int, names: Sequence[str]) -> None:
    producer = plain_producer(settings)
    for name in names:
        producer.produce(topic, name.encode(), b"k", partition)
    assert producer.flush(30) == 0


def committed(member: Member, topic: str) -> list[int]:
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    return [tp.offset for tp in member.consumer._consumer.committed(places, timeout=30)]


def processed(settings: Settings, topic: str) -> list[bytes]:
    return [value_of(message) for message in read_back(settings, [(f"{topic}-out", 0)])]


@pytest.mark.parametrize("last_words", [True, False], ids=["published", "dropped"])
def test_a_rebalance_between_fetch_and_commit_of_500_records(
    settings: Settings, topic: str, last_words: bool
) -> None:
    names = [f"{number}" for number in range(500)]
    send(settings, topic, 0, names[:250])
    send(settings, topic, 1, names[250:])
    first = Member(settings, topic, 0, last_words=last_words)
    until(lambda: len(first.taken) == 500, first)
    second = Member(settings, topic, 1)
    until(lambda: len(first.owned) == 1 and len(second.owned) == 1, first, second)
    assert committed(first, topic) == ([250, 250] if last_words else [-1001, -1001])

    def through() -> bool:
        first.publish()
        second.publish()
        return committed(first, topic) == [250, 250]

    until(through, first, second)
    assert sorted(processed(settings, topic)) == sorted(name.encode() for name in names)
    first.consumer.close()
    second.consumer.close()


def test_what_was_taken_before_a_partition_went_is_committed_by_nobody_but_its_owner(
    settings: Settings, topic: str
) -> None:
    send(settings, topic, 0, ["a"])
    send(settings, topic, 1, ["b"])
    first = Member(settings, topic, 0)
    until(lambda: len(first.taken) == 2, first)
    stale = [Finished(place_of(message), message.offset() or 0, 0) for message in first.taken]
    second = Member(settings, topic, 1)
    until(lambda: len(first.owned) == 1 and len(second.taken) == 1 and len(first.taken) == 1, first, second)
    (kept,) = first.owned
    assert first.consumer.publish([], stale)
    offsets = committed(first, topic)
    assert offsets[kept[1]] == 1
    assert offsets[1 - kept[1]] == -1001
    first.consumer.close()
    second.consumer.close()


def test_a_partition_that_went_and_came_back_with_work_unfinished_is_read_again(
    settings: Settings, topic: str
) -> None:
    send(settings, topic, 0, [f"a{number}" for number in range(5)])
    send(settings, topic, 1, [f"b{number}" for number in range(5)])
    first = Member(settings, topic, 0)
    until(lambda: len(first.taken) == 10, first)
    first.consumer.hold(first.owned)
    second = Member(settings, topic, 1)
    until(lambda: len(second.taken) == 5, first, second)
    second.consumer.close()
    until(lambda: len(first.owned) == 2, first)
    assert all(first.consumer.room(place, 1) for place in first.owned)
    first.consumer.hold([])
    send(settings, topic, 0, ["a5"])
    send(settings, topic, 1, ["b5"])
    until(lambda: len(first.taken) == 12, first)
    first.publish()
    assert len(set(processed(settings, topic))) == len(processed(settings, topic)) == 12
    assert committed(first, topic) == [6, 6]
    first.consumer.close()


def test_a_member_whose_place_was_taken_joins_again(settings: Settings, topic: str) -> None:
    """An outage does it too: the join is sent twice, and the broker takes the first for somebody else's."""
    send(settings, topic, 0, ["a"])
    first = Member(settings, topic, 0)
    until(lambda: len(first.taken) == 1, first)
    name = f"{settings.app}-test"
    twin = group_consumer(settings, name, f"{name}-0")
    twin.subscribe([topic])
    until(lambda: twin.poll(0.05) is not None, first)
    twin.close()
    send(settings, topic, 1, ["b"])
    until(lambda: len(first.taken) == 2, first)
    first.publish()
    assert sorted(processed(settings, topic)) == [b"a", b"b"]
    first.consumer.close()


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPipeline]:
    """A sample takes longer than a member may be silent."""
    with own_pipeline(
        tmp_path_factory.mktemp("agents"),
        agents=("batcher", "aggregator"),
        shards=_SHARDS,
        script=f'{{"min_ms": 3500, "max_ms": 4000, "rows": {_ROWS}}}',
        env={"TALLYSTREAM_MAX_POLL_INTERVAL_MS": "3000"},
    ) as pipeline:
        yield pipeline


def test_workers_that_come_and_go_draw_each_sample_once(pipeline: OwnPipeline) -> None:
    """At most what is in the engine of a worker that loses a partition is begun again."""
    with Asker(pipeline.settings) as asker, pipeline.agents(["worker"]):
        asked = _ask(asker, 20)
        _drawn(asker, 4)
        with (
            pipeline.agents(["worker"], slot=1, once=True),
            pipeline.agents(["worker"], slot=2, once=True) as third,
        ):
            _drawn_by(asker, 1)
            _drawn_by(asker, 2)
            os.kill(third.pids["worker-2"], signal.SIGKILL)
            _drawn(asker, 8)
        _drawn(asker, 8)  # the second was stopped by SIGTERM when its block ended
        once_each(asker, asked)
    again = begun(pipeline.settings, set(asked), "The")
    assert set(again) == {(request_id, 0, index) for request_id in asked for index in range(3)}
    losses = 1 + 2 + 1 + 1  # the first, then two of them; the one killed; the one stopped
    assert sum(again.values()) - len(again) <= losses * _ROWS
    assert "MAXPOLL" not in pipeline.logs("worker")


def test_batchers_and_aggregators_that_leave_and_come_back_write_nothing_twice(
    pipeline: OwnPipeline,
) -> None:
    quick = {"TALLYSTREAM_ENGINE__SCRIPT": '{"min_ms": 1, "max_ms": 40}'}
    pair = ("batcher", "aggregator")
    with Asker(pipeline.settings) as asker, pipeline.agents(["worker"], slot=3, **quick):
        asked: list[str] = []
        for _ in range(2):
            with pipeline.agents(pair, slot=1, once=True):
                _until_shared(pipeline, asker, asked, 2)
            _until_shared(pipeline, asker, asked, 1)
        asked += _ask(asker, 10)
        once_each(asker, asked)
    batched_once(pipeline.settings, asked)


def _ask(asker: Asker, number: int) -> list[str]:
    """Samples that all differ, so that no vote is decided before the last is drawn."""
    return [asker.ask("answers=1,2,3", mode=Mode.STANDARD, priority=n % 6) for n in range(number)]


def _drawn(asker: Asker, more: int) -> None:
    wanted = len(asker.of(Sample)) + more
    asker.until(lambda: len(asker.of(Sample)) >= wanted, "more samples")


def _drawn_by(asker: Asker, slot: int) -> None:
    asker.until(lambda: any(s.worker.endswith(f"-{slot}") for s in asker.of(Sample)), f"worker {slot}")


def _until_shared(pipeline: OwnPipeline, asker: Asker, asked: list[str], members: int) -> None:
    """Ask on and on until each group has settled with so many members."""
    admin = admin_client(pipeline.settings)
    groups = [f"{pipeline.settings.app}-{role}" for role in ("batcher", "aggregator")]

    def describe() -> list[Any]:
        return [outcome.result() for outcome in admin.describe_consumer_groups(groups).values()]

    def settled() -> bool:
        asked.extend(_ask(asker, 2))
        found = patiently(describe)  # Kafka may just be moving the group's coordinator
        return all(
            group.state.name == "STABLE"
            and sum(bool(member.assignment.topic_partitions) for member in group.members) == members
            for group in found
        )

    asker.until(settled, f"{members} members in each group")
    asker.finals(asked[-4:])
