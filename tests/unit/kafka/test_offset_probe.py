"""What a probe says when Kafka answers, and a fetch is late."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from pipeline.kafka import offset_probe
from pipeline.kafka.offset_probe import OffsetProbe
from pipeline.ledger import Standing
from pipeline.settings import load_settings

BUSY, IDLE = ("busy", 0), ("idle", 0)


class Record:
    """At offset 3 of the busy partition."""

    def error(self) -> None: ...

    def topic(self) -> str:
        return BUSY[0]

    def partition(self) -> int:
        return BUSY[1]

    def offset(self) -> int:
        return 3


class Consumer:
    """A group that stands at 2 of 5 in one partition, and at the end of the other; fetches give what the test says."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.fetched: list[Record | None] = []
        self.assigned = False

    def get_watermark_offsets(self, place: TopicPartition, **_: Any) -> tuple[int, int]:
        return 0, 5

    def committed(self, places: list[TopicPartition], **_: Any) -> list[TopicPartition]:
        return [TopicPartition(tp.topic, tp.partition, 2 if tp.topic == BUSY[0] else 5) for tp in places]

    def poll(self, timeout: float) -> Record | None:
        return self.fetched.pop(0)

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = True

    def unassign(self) -> None:
        self.assigned = False


def test_while_a_fetch_is_late_its_partition_counts_as_not_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Consumer()
    monkeypatch.setattr(offset_probe, "assigned_consumer", lambda *_, **__: consumer)
    probe = OffsetProbe(load_settings(bootstrap="nowhere:1"), "worker")
    consumer.fetched = [None]
    assert probe.standings([BUSY, IDLE]) == {BUSY: Standing(2, "", 2), IDLE: Standing(5, "", 5)}
    assert not consumer.assigned
    consumer.fetched = [Record()]
    assert probe.standings([BUSY, IDLE]) == {BUSY: Standing(3, "", 5), IDLE: Standing(5, "", 5)}
