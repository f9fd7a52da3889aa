"""Waiting on the event loop for a condition, with a bound that only something broken meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come true")
