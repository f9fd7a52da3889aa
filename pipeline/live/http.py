"""``/v1/tasks/{id}/events`` and ``/v1/tasks/{id}/ws``: a task as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec
import structlog
from aiohttp import WSCloseCode, web

from pipeline.gateway.context import gateway_of, visible_task
from pipeline.gateway.documents import task_document
from pipeline.live.listener import Lost
from pipeline.live.position import Position
from pipeline.live.sse import HEADERS, EventStream, is_idle
from pipeline.live.stream import Line, Teller

log = structlog.get_logger(__name__)

_LAST = "last_event_id"
_GOOD_BYE = 1.0
"""Seconds for a close frame and its answer; who takes nothing is not waited for."""


def routes() -> Iterable[web.RouteDef]:
    return (
        web.get("/v1/tasks/{id}/events", events, allow_head=False),
        web.get("/v1/tasks/{id}/ws", socket, allow_head=False),
    )


async def events(request: web.Request) -> web.StreamResponse:
    """Server-sent events, from the beginning or after ``Last-Event-ID``; ends with the event ``end``.

    Raises:
        NotFoundError: the task is not there, or somebody else's.
        InvalidRequestError: the id to go on after is none of ours.
    """
    task, position = await visible_task(request, request.match_info["id"]), _position(request)
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    stream = EventStream(request, response)
    await stream.begin()
    if await _teller(request).tell(task, position, stream) is Lost.SLOW:
        log.info("a listener was too slow", request_id=task.request.request_id)
        stream.abort()
    return response


async def socket(request: web.Request) -> web.StreamResponse:
    """The same as text frames ``{"event", "id", "data"}`` of a WebSocket; what the client says is not heard.

    Raises:
        NotFoundError, InvalidRequestError: as ``events``, before it becomes a WebSocket.
    """
    task, position = await visible_task(request, request.match_info["id"]), _position(request)
    heartbeat = gateway_of(request).settings.gateway.sse_heartbeat
    response = web.WebSocketResponse(heartbeat=heartbeat, max_msg_size=4096, timeout=_GOOD_BYE)
    await response.prepare(request)
    sink = _Frames(request, response)
    reading = asyncio.create_task(_listen(response))
    try:
        lost = await _teller(request).tell(task, position, sink)
        if lost is Lost.SLOW:
            log.info("a listener was too slow", request_id=task.request.request_id)
        await _close(request, response, WSCloseCode.OK if lost is None else _CODES[lost])
    finally:
        reading.cancel()
    return response


_CODES = {
    Lost.SLOW: WSCloseCode.TRY_AGAIN_LATER,
    Lost.CLOSING: WSCloseCode.GOING_AWAY,
    Lost.LEFT: WSCloseCode.OK,
}


class _Frames:
    """The sink of a WebSocket."""

    def __init__(self, request: web.Request, response: web.WebSocketResponse) -> None:
        self._request, self._response = request, response

    @property
    def gone(self) -> bool:
        return self._response.closed

    @property
    def idle(self) -> bool:
        return is_idle(self._request)

    async def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            frame = {"event": line.name, "id": line.id, "data": msgspec.Raw(line.data)}
            await self._response.send_str(msgspec.json.encode(frame).decode())

    async def beat(self) -> None:
        """The response pings by itself."""


async def _listen(response: web.WebSocketResponse) -> None:
    """Read on, so that pings are answered and a close is seen."""
    async for _ in response:
        pass


async def _close(request: web.Request, response: web.WebSocketResponse, code: int) -> None:
    try:
        async with asyncio.timeout(_GOOD_BYE):
            await response.close(code=code)
    except TimeoutError:
        if (transport := request.transport) is not None:
            transport.abort()


def _teller(request: web.Request) -> Teller:
    gateway = gateway_of(request)
    return Teller(gateway.hub, gateway.store, task_document, gateway.settings.gateway.sse_heartbeat)


def _position(request: web.Request) -> Position:
    """What browsers send when they come back, or the query says, as they can not say it the first time."""
    text = request.headers.get("Last-Event-ID") or request.query.get(_LAST) or ""
    return Position.parse(text) if text else Position()
