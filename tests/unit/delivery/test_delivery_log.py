"""What becomes of an attempt whose outcome could not be recorded at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from webhook_servers import DELIVERY

from pipeline.delivery import delivery_log
from pipeline.delivery.delivery_log import DeliveryLog, Last
from pipeline.delivery.outcome import OutcomeCode
from pipeline.delivery.schedule import refuse, send_again
from pipeline.delivery.standing import Standing
from pipeline.events import Delivery, DeliveryState, ErrorInfo
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

    def __init__(self, output: Output, offset: int = 0) -> None:
        self._value, self._offset = output.value, offset

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class Asked:
    """Follows what the test puts there."""

    def __init__(self, _: Any) -> None:
        self.starts: dict[int, int] = {}

    def follow(self, starts: dict[int, int]) -> None:
        self.starts = starts


class Dispatcher:
    """Holds nothing."""

    def __init__(self) -> None:
        self.submitted: list[Delivery] = []
        self.told: dict[str, Standing] = {}

    def learn(self, told: dict[str, Standing]) -> None:
        self.told |= told

    def submit(self, delivery: Delivery) -> None:
        self.submitted.append(delivery)

    def forget_all(self, over: Any) -> None: ...

    def resume(self) -> None: ...


class Bench:
    """A log on fakes, and one attempt that waits to be recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delivery_log, "TransactionalConsumer", Consumer)
        monkeypatch.setattr(delivery_log, "Asked", Asked)
        monkeypatch.setattr(delivery_log, "read_back", lambda *_: map(Record, self.topic, count(5)))
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


async def test_the_newest_record_of_an_endpoint_says_how_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    down = ErrorInfo("endpoint_disabled", "")
    failed = replace(DELIVERY, state=DeliveryState.FAILED, attempt=3, failing_since=7, error=down)
    records = [
        replace(failed, delivery_id="b", updated_at=2_000),
        replace(failed, delivery_id="a", updated_at=1_000, failing_since=None, error=None),
        replace(DELIVERY, delivery_id="c", updated_at=3_000),
    ]
    bench.topic = [bench.output(record) for record in records]
    await asyncio.to_thread(bench.log.assigned, [PLACE])
    await asyncio.sleep(0)
    assert bench.dispatcher.told == {"hooks.example.com:80": Standing(2_000, 7, True)}
    assert [delivery.delivery_id for delivery in bench.dispatcher.submitted] == ["c"]
    assert bench.log._asked.starts == {0: 8}, "what is asked is followed from behind what was read"
    await asyncio.to_thread(bench.log.dropped, [PLACE])
    assert bench.log._asked.starts == {}


async def test_what_is_asked_for_is_taken_by_the_owner_of_its_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    failed = refuse(replace(DELIVERY, attempt=3), OutcomeCode.ENDPOINT_DISABLED, "", 5_000)
    again, enabled = send_again(failed, 6_000), replace(failed, updated_at=6_000)
    for event in (again, enabled):
        bench.log._take_asked(Record(bench.output(event)))
    bench.log._take_asked(Record(Output(DELIVERIES, 0, b"", b"not ours")))
    bench.consumer.owned = set()
    bench.log._take_asked(Record(bench.output(again)))
    await asyncio.sleep(0)
    assert bench.dispatcher.submitted == [again, enabled], "the dispatcher ignores what has ended"
    assert bench.dispatcher.told == {"hooks.example.com:80": Standing(6_000)}


TRIED = replace(DELIVERY, attempt=2)
GIVEN_UP = refuse(TRIED, OutcomeCode.CIRCUIT_OPEN, "", 9_000)


@pytest.mark.parametrize(
    ("made", "last", "written"),
    [
        (TRIED, replace(TRIED, attempt=1), False),
        (TRIED, TRIED, True),
        (TRIED, replace(TRIED, attempt=3), True),
        (GIVEN_UP, TRIED, False),
        (GIVEN_UP, GIVEN_UP, True),
        (GIVEN_UP, send_again(GIVEN_UP, 9_001), True),
        (replace(send_again(GIVEN_UP, 9_001), attempt=3), send_again(GIVEN_UP, 9_001), False),
    ],
)
def test_which_outcomes_the_newest_record_shows_to_be_written(
    made: Delivery, last: Delivery, written: bool
) -> None:
    assert Last.of(last).follows(made) is written
