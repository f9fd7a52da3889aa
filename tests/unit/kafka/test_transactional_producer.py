"""Calls that do not return: abandoned at their deadline, whatever librdkafka does with its own time-outs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from pipeline.errors import BrokerDownError, FencedError, NotPermittedError
from pipeline.kafka import transactional_producer
from pipeline.kafka.records import Output
from pipeline.kafka.transactional_producer import TransactionalProducer, said_plainly
from pipeline.settings import load_settings

OUTPUT = Output("t", 0, b"k", b"v")


class Stuck:
    """A producer whose coordinator is away: sending offsets hangs and ignores its time-out."""

    def __init__(self, *_: Any) -> None:
        self.back = threading.Event()
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def produce(self, *_: Any, **__: Any) -> None:
        self.calls.append("produce")

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.calls.append("send offsets")
        self.back.wait()

    def commit_transaction(self, timeout: float) -> None:
        self.calls.append("commit")

    def purge(self) -> None:
        self.calls.append("purge")


def test_a_call_that_never_returns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck()
    monkeypatch.setattr(transactional_producer, "transactional_producer", lambda *_: stuck)
    producer = TransactionalProducer(load_settings(transaction_timeout_ms=1_000), "id")
    with pytest.raises(BrokerDownError, match="id: no answer"):
        producer.commit([OUTPUT], [TopicPartition("in", 0, 1)], object())
    producer.close()
    assert stuck.calls == ["begin", "produce", "send offsets", "purge"]
    stuck.back.set()


def test_calls_of_one_transaction_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck()
    stuck.back.set()
    monkeypatch.setattr(transactional_producer, "transactional_producer", lambda *_: stuck)
    producer = TransactionalProducer(load_settings(), "id")
    producer.commit([OUTPUT, OUTPUT], [TopicPartition("in", 0, 1)], object())
    producer.commit([OUTPUT])
    producer.close()
    assert stuck.calls == [
        *("begin", "produce", "produce", "send offsets", "commit"),
        *("begin", "produce", "commit"),
        "purge",
    ]


@pytest.mark.parametrize(
    ("code", "fatal", "error", "text"),
    [
        (KafkaError._FENCED, True, FencedError, "gone"),
        (KafkaError._FENCED, False, BrokerDownError, "; again"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, NotPermittedError, "topics acls"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False, NotPermittedError, "topics acls"),
    ],
)
def test_a_command_says_who_has_fenced_it_what_it_may_not_or_that_it_can_be_repeated(
    code: int, fatal: bool, error: type[Exception], text: str
) -> None:
    def call() -> None:
        raise KafkaException(KafkaError(code, "x", fatal=fatal))

    with pytest.raises(error, match=text):
        said_plainly(call, fenced="gone", down="again")
