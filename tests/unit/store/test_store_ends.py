"""Where topics end: a question that is shared was never asked before the last who shares it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest

from pipeline.errors import BrokerDownError
from pipeline.settings import load_settings
from pipeline.store import ends as module
from pipeline.store.ends import Ends


class Kafka:
    """Answers when it is let, with how often it was asked."""

    def __init__(self) -> None:
        self.asked, self.down = 0, False
        self.begun, self.may = threading.Semaphore(0), threading.Semaphore(0)

    def end_offsets(self, *_: object) -> Mapping[tuple[str, int], int]:
        self.asked += 1
        number = self.asked
        self.begun.release()
        self.may.acquire()
        if self.down:
            raise BrokerDownError("away")
        return {("requests", 0): number}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr(module, "end_offsets", kafka.end_offsets)
    return kafka


async def test_who_asks_while_a_question_is_under_way_gets_the_next_one(kafka: Kafka) -> None:
    ends = Ends(load_settings(bootstrap="127.0.0.1:1"))
    first = asyncio.ensure_future(ends.now())
    await asyncio.to_thread(kafka.begun.acquire)
    later = [asyncio.ensure_future(ends.now()) for _ in range(10)]
    kafka.may.release()
    assert await first == {("requests", 0): 1}
    kafka.may.release()
    assert await asyncio.gather(*later) == [{("requests", 0): 2}] * 10
    await ends.close()


async def test_a_question_that_failed_is_asked_again_by_the_next_and_one_who_leaves_takes_nobody_along(
    kafka: Kafka,
) -> None:
    ends = Ends(load_settings(bootstrap="127.0.0.1:1"))
    first = asyncio.ensure_future(ends.now())
    await asyncio.to_thread(kafka.begun.acquire)
    leaves, stays = asyncio.ensure_future(ends.now()), asyncio.ensure_future(ends.now())
    await asyncio.sleep(0)
    leaves.cancel()
    kafka.down = True
    kafka.may.release()
    with pytest.raises(BrokerDownError):
        await first
    kafka.down = False
    kafka.may.release()
    assert await stays == {("requests", 0): 2}
    await ends.close()
