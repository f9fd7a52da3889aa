"""What becomes of an attempt whose outcome could not be recorded at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from webhook_servers import DELIVERY

from pipeline.delivery import delivery_log
from pipeline.delivery.delivery_log import DeliveryLog
from pipeline.events import Delivery
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Output, Place
from pipeline.settings import load_settings
from pipeline.topics import DELIVERIES, RESULTS

CODEC = Codec()
PLACE = (RESULTS, 0)


class Consumer:
    """Commits when Kafka is there; owns what the test says."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.up, self.owned, self.committed = True, {PLACE}, list[Output]()

    def owns(self, place: Place) -> bool:
        return place in self.owned

    def publish(self, outputs: Sequence[Output], finished: Iterable[Any]) -> bool:
        if self.up:
            self.committed += outputs
        return self.up


class Record:
    """What the read-back finds."""

    def __init__(self, output: Output) -> None:
        self._value = output.value

    def value(self) -> bytes:
        return self._value


class Dispatcher:
    """Holds nothing."""

    def __init__(self) -> None:
        self.submitted: list[Delivery] = []

    def submit(self, delivery: Delivery) -> None:
        self.submitted.append(delivery)

    def forget_all(self, over: Any) -> None: ...

    def resume(self) -> None: ...


class Bench:
    """A log on fakes, and one attempt that waits to be recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delivery_log, "TransactionalConsumer", Consumer)
        monkeypatch.setattr(delivery_log, "read_back", lambda *_: map(Record, self.topic))
        other: Any = type("Ledger", (), {"waited": lambda _: None})()
        settings = load_settings(bootstrap="nowhere:1", shards=1)
        self.log: Any = DeliveryLog(settings, CODEC, asyncio.get_running_loop(), other, other)
        self.consumer: Consumer = self.log._consumer
        self.dispatcher = self.log._dispatcher = Dispatcher()
        self.topic: list[Output] = []

    @staticmethod
    def output(delivery: Delivery) -> Output:
        return Output(DELIVERIES, 0, b"", CODEC.encode(delivery))

    def attempts(self) -> list[int]:
        """Of the attempts that were committed."""
        events = [CODEC.decode(out.value) for out in self.consumer.committed]
        return [event.attempt for event in events if isinstance(event, Delivery)]

    async def attempt(self) -> asyncio.Task[None]:
        """The first attempt has failed, and its outcome is to be recorded."""
        task = asyncio.create_task(self.log.record(replace(DELIVERY, attempt=1)))
        await asyncio.sleep(0)
        return task


async def test_an_attempt_is_not_recorded_by_who_has_lost_it_meanwhile_and_got_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The new owner, the same process here, has read that nothing was attempted, and attempts it again."""
    bench = Bench(monkeypatch)
    attempt = await bench.attempt()
    bench.consumer.up = False
    assert not await asyncio.to_thread(bench.log._publish)
    bench.topic = [bench.output(replace(DELIVERY, attempt=0))]
    await asyncio.to_thread(bench.log.dropped, [PLACE])
    await asyncio.to_thread(bench.log.assigned, [PLACE])
    bench.consumer.up = True
    assert await asyncio.to_thread(bench.log._publish)
    await attempt
    assert bench.attempts() == []
    assert [delivery.attempt for delivery in bench.dispatcher.submitted] == [0]


@pytest.mark.parametrize(("committed", "again"), [(True, []), (False, [1])])
async def test_an_attempt_whose_transaction_nobody_answered_is_recorded_once(
    monkeypatch: pytest.MonkeyPatch, committed: bool, again: list[int]
) -> None:
    bench = Bench(monkeypatch)
    attempt = await bench.attempt()
    bench.consumer.up = False
    assert not await asyncio.to_thread(bench.log._publish)
    bench.log.rewound([PLACE])
    bench.topic = [bench.output(replace(DELIVERY, attempt=number)) for number in range(1 + committed)]
    await asyncio.to_thread(bench.log.assigned, [PLACE])
    bench.consumer.up = True
    assert await asyncio.to_thread(bench.log._publish)
    await attempt
    assert bench.attempts() == again
