"""A client that costs little, so that what is measured is the server: one request's bytes, again and again."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from pipeline.errors import DependencyDownError

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ACCEPTED = b"HTTP/1.1 202"


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, request: bytes) -> None:
        self._port, self._request = port, request

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def call(self) -> None:
        """Send the request and read the answer.

        Raises:
            DependencyDownError: it is not 202.
        """
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1]) if length else 0)
        if not head.startswith(_ACCEPTED):
            raise DependencyDownError(f"the gateway answers {head[:40]!r}: {body[:200]!r}")

    def close(self) -> None:
        self._writer.close()


async def saturate(connections: list[Connection], seconds: float) -> float:
    """Calls a second, with one call in flight on each connection."""
    done = 0

    async def go_on(call: Callable[[], Awaitable[None]], until: float) -> None:
        nonlocal done
        while time.monotonic() < until:
            await call()
            done += 1

    began = time.monotonic()
    await asyncio.gather(*(go_on(each.call, began + seconds) for each in connections))
    return done / (time.monotonic() - began)


async def pace(connections: list[Connection], rate: float, seconds: float) -> list[float]:
    """Latencies in seconds of calls that are due at a rate, each from when it was due."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for each in connections:
        free.put_nowait(each)
    latencies: list[float] = []

    async def one(due: float) -> None:
        connection = await free.get()
        try:
            await connection.call()
            latencies.append(time.monotonic() - due)
        finally:
            free.put_nowait(connection)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(max(1, round(rate * seconds))):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(one(due))
    return latencies


def post(path: str, body: bytes) -> bytes:
    """A request's bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
