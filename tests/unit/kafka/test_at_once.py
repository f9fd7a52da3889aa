"""A coroutine that is begun at once goes on as if it had been awaited."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.kafka.at_once import AtOnce


async def test_what_never_waits_is_done() -> None:
    async def seven() -> int:
        return 7

    begun = AtOnce(seven())
    assert (begun.done, begun.result) == (True, 7)


async def test_what_waits_goes_on_when_it_is_awaited() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(1)
    queue.put_nowait(1)

    async def put_two() -> str:
        await queue.put(2)
        await queue.put(3)
        return "put"

    begun = AtOnce(put_two())
    assert not begun.done
    task = asyncio.ensure_future(begun)
    assert [await queue.get() for _ in range(3)] == [1, 2, 3]
    assert await task == "put"


async def test_it_sees_its_cancellation() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(AtOnce(wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_an_error_comes_out_before_and_after_a_wait() -> None:
    async def fail(first: bool) -> None:
        if first:
            raise ValueError("at once")
        await asyncio.sleep(0)
        raise ValueError("later")

    with pytest.raises(ValueError, match="at once"):
        AtOnce(fail(True))
    with pytest.raises(ValueError, match="later"):
        await AtOnce(fail(False))
