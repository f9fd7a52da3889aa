"""The intake against a Kafka that is not there; with one, tests/integration/test_gateway.py."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.errors import BrokerDownError, OverloadedError
from pipeline.free_ports import free_ports
from pipeline.gateway import intake as module
from pipeline.gateway.intake import Intake
from pipeline.kafka.records import Output
from pipeline.settings import Settings, load_settings

RECORD = Output("requests", 0, b"k", b"x" * 2_000)


@pytest.fixture
def nowhere() -> Settings:
    (port,) = free_ports(1)
    return load_settings(bootstrap=f"127.0.0.1:{port}", gateway={"acknowledge_timeout": 0.3})


async def test_kafka_away_is_told_in_time_and_says_that_it_may_have_come(nowhere: Settings) -> None:
    async with Intake(nowhere) as intake:
        results = await asyncio.gather(*(intake.write(RECORD) for _ in range(20)), return_exceptions=True)
        assert len(intake._producer) == 0, "nothing is written long after its client was told"
    assert all(isinstance(each, BrokerDownError) for each in results)
    assert all("Idempotency-Key" in str(each) for each in results)


async def test_the_loop_goes_on_meanwhile(nowhere: Settings) -> None:
    async with Intake(nowhere) as intake:
        call = asyncio.create_task(intake.write(RECORD))
        turns = 0
        while not call.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        with pytest.raises(BrokerDownError):
            await call


async def test_what_waits_for_kafka_is_bounded(nowhere: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUED_KILOBYTES", 100)
    async with Intake(nowhere) as intake:
        results = await asyncio.gather(*(intake.write(RECORD) for _ in range(200)), return_exceptions=True)
    refused = [each for each in results if isinstance(each, OverloadedError)]
    assert refused and all(each.retry_after for each in refused)
    assert len(refused) < len(results)


async def test_who_left_is_not_told(nowhere: Settings) -> None:
    async with Intake(nowhere) as intake:
        call = asyncio.create_task(intake.write(RECORD))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(BrokerDownError):
            await intake.write(RECORD)
