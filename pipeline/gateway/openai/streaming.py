"""A task's live events, told in OpenAI's form over server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec
from aiohttp import web

from pipeline.events import Kind, Status
from pipeline.gateway.context import Gateway
from pipeline.gateway.documents import task_document
from pipeline.live.position import Position
from pipeline.live.sse import HEADERS, is_idle
from pipeline.live.stream import Line, Teller
from pipeline.live.words import json_line
from pipeline.scheduling.modes import profile_of
from pipeline.store.tasks import Task

DONE = b"data: [DONE]\n\n"


class Voice(Protocol):
    """How one of OpenAI's streams says what happens."""

    def begun(self, task: Task) -> Iterable[bytes]: ...

    def preview(self, task: Task, text: str) -> Iterable[bytes]: ...

    def gap(self) -> None: ...

    def ended(self, task: Task) -> Iterable[bytes]: ...


async def streamed(
    request: web.Request, gateway: Gateway, task: Task, voice: Voice, begin: Iterable[bytes] = ()
) -> web.StreamResponse:
    """Tell a task until its end.

    A connection that is too slow, or that this gateway can not serve to the end, is broken off: an end that looks
    like one would be taken for the answer's.
    """
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    await response.write(b"".join(begin))
    sink = _Sink(request, response, gateway, task, voice)
    heartbeat = gateway.settings.gateway.sse_heartbeat
    await Teller(gateway.hub, gateway.store, task_document, heartbeat).tell(task, Position(), sink)
    if not sink.over and request.transport is not None:
        request.transport.abort()
    return response


def sse(document: dict[str, Any], *, named: bool = False) -> bytes:
    """One event, by its type's name if it has one."""
    name = f"event: {document['type']}\n" if named else ""
    return name.encode() + b"data: " + json_line(document) + b"\n\n"


class _Sink:
    """What a ``Teller`` writes to."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, gateway: Gateway, task: Task, voice: Voice
    ) -> None:
        self._request, self._response, self._gateway = request, response, gateway
        self._task, self._voice = task, voice
        asked = task.request
        # Of several samples nobody knows yet which one will be the answer, nor whether an answer is found in it.
        self._previews = asked.kind is Kind.OPEN and (asked.sampling.n or profile_of(asked).samples) == 1
        self.over = False

    @property
    def gone(self) -> bool:
        transport = self._request.transport
        return self.over or transport is None or transport.is_closing()

    @property
    def idle(self) -> bool:
        return is_idle(self._request)

    async def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            if not self.over and (said := b"".join(await self._said(line))):
                await self._response.write(said)

    async def beat(self) -> None:
        await self._response.write(b": \n\n")

    async def _said(self, line: Line) -> Iterable[bytes]:
        match line.name:
            case "state":
                status = Status(msgspec.json.decode(line.data)["status"])
                if status in (Status.RUNNING, Status.FIRST_ANSWER):  # its end is told by its result
                    self._task = replace(self._task, status=status)
                    return self._voice.begun(self._task)
            case "tokens" if self._previews:
                return self._voice.preview(self._task, msgspec.json.decode(line.data)["text"])
            case "gap":
                self._voice.gap()
            case "votes":
                return (b": votes " + line.data + b"\n\n",)
            case "result":
                self._task = await self._gateway.store.task(self._task.request.request_id) or self._task
                self.over = True
                return self._voice.ended(self._task)
            case _:
                pass
        return ()
