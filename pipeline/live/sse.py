"""Server-sent events over one response, as the HTML standard has them."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from pipeline.live.stream import Line

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx passes it on at once
}
_RETRY_MS = 1_000


def encoded(line: Line) -> bytes:
    """One event. Its name and id are ours, its data is one line."""
    place = f"id: {line.id}\n" if line.id is not None else ""
    return f"event: {line.name}\n{place}".encode() + b"data: " + line.data + b"\n\n"


class EventStream:
    """The sink of a response that is prepared."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._request, self._response = request, response

    @property
    def gone(self) -> bool:
        transport = self._request.transport
        return transport is None or transport.is_closing()

    @property
    def idle(self) -> bool:
        return is_idle(self._request)

    async def begin(self) -> None:
        """Say how soon to come back after a loss."""
        await self._response.write(f"retry: {_RETRY_MS}\n\n".encode())

    async def write(self, lines: Sequence[Line]) -> None:
        await self._response.write(b"".join(encoded(line) for line in lines))

    async def beat(self) -> None:
        await self._response.write(b": \n\n")

    def abort(self) -> None:
        """Close at once what takes nothing any more."""
        if (transport := self._request.transport) is not None:
            transport.abort()


def is_idle(request: web.Request) -> bool:
    """Whether nothing waits to be taken by the network."""
    transport = request.transport
    return transport is not None and transport.get_write_buffer_size() == 0
