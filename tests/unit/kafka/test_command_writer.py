"""How a command's transactions are cut, and what it leaves behind when it is stopped."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipeline.errors import ConfigError
from pipeline.kafka import transactional_producer
from pipeline.kafka.command_writer import Command, CommandWriter
from pipeline.kafka.records import Output
from pipeline.settings import load_settings

UNITS = [(Output("t", 0, b"k", b"v"),)] * 7


class Calls:
    """A producer that notes what is asked of it."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.open = False

    def init_transactions(self, _: float) -> None:
        self.made.append("fence")

    def begin_transaction(self) -> None:
        self.open = True

    def produce(self, *_: Any, **__: Any) -> None:
        self.made.append("produce")

    def commit_transaction(self, _: float) -> None:
        self.made.append("commit")
        self.open = False

    def abort_transaction(self, _: float) -> None:
        self.made.append("abort")
        if not self.open:
            raise KafkaException(KafkaError(KafkaError._STATE))

    def purge(self) -> None:
        self.made.append("close")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls()
    monkeypatch.setattr(transactional_producer, "transactional_producer", lambda *_: made)
    return made


def writer() -> CommandWriter:
    return CommandWriter(load_settings(), Command.REVOTE, fenced="f", down="d")


@pytest.mark.parametrize(
    ("most", "lots"), [(None, [7]), (3, [3, 6, 7]), (1, [1, 2, 3, 4, 5, 6, 7]), (999, [7])]
)
def test_a_lot_holds_at_most_so_many_units(calls: Calls, most: int | None, lots: list[int]) -> None:
    with writer() as opened:
        assert list(opened.write(UNITS, most)) == lots
    assert (calls.made.count("produce"), calls.made.count("commit")) == (7, len(lots))


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_a_writer_that_is_stopped_aborts_what_is_open(calls: Calls, signal: type[BaseException]) -> None:
    with pytest.raises(signal), writer():
        calls.open = True
        raise signal
    assert calls.made == ["fence", "abort", "close"]


def test_a_writer_that_is_stopped_between_its_transactions_goes_quietly(calls: Calls) -> None:
    with pytest.raises(KeyboardInterrupt), writer() as opened:
        for _ in opened.write(UNITS, 3):
            raise KeyboardInterrupt
    assert calls.made == ["fence", *["produce"] * 3, "commit", "abort", "close"]


def test_a_writer_that_failed_is_left_to_be_fenced(calls: Calls) -> None:
    with pytest.raises(ConfigError), writer():
        raise ConfigError("m")
    assert calls.made == ["fence", "close"]
