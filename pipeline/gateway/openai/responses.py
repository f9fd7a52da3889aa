"""``/v1/responses``: asking, looking, streaming, cancelling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from aiohttp import web

from pipeline.client import control_record
from pipeline.delivery.openai_event import response_id
from pipeline.errors import InvalidRequestError, NotFoundError
from pipeline.events import Control, ControlAction, Status
from pipeline.gateway.body_reader import read_json
from pipeline.gateway.context import gateway_of, visible_task
from pipeline.gateway.openai.answers import response_document, text_of
from pipeline.gateway.openai.asking import response_request
from pipeline.gateway.openai.bodies import ResponseBody
from pipeline.gateway.openai.models import check_model, model_name
from pipeline.gateway.openai.response_events import Event, ResponseEvents
from pipeline.gateway.openai.streaming import sse, streamed
from pipeline.gateway.openai.submitting import asker_of, submitted_task
from pipeline.gateway.openai.waiting import ended_task
from pipeline.store.tasks import Task
from pipeline.telemetry import now_ms

_PREFIX = response_id("")
_CANCEL = 5.0
"""Seconds in which an order to cancel is waited for; it holds all the same."""


async def create(request: web.Request) -> web.StreamResponse:
    """Ask; the response at once (background), when it has ended, or as a stream."""
    gateway = gateway_of(request)
    body = await read_json(request, ResponseBody)
    check_model(gateway.settings, body.model)
    task = await submitted_task(request, response_request(body, asker_of(request)))
    if body.stream:
        return await _streamed(request, task, -1)
    if not body.background:
        limit = gateway.settings.gateway.wait_limit
        task = await ended_task(gateway, request, task, limit)
    return _told(request, task, background=bool(body.background))


async def show(request: web.Request) -> web.StreamResponse:
    """One response; ``?stream=true&starting_after=N`` tells what came after event N, and what comes."""
    task = await _task(request)
    if request.query.get("stream") == "true":
        return await _streamed(request, task, _number(request.query.get("starting_after")))
    return _told(request, task)


async def cancel(request: web.Request) -> web.Response:
    """Stop it; one that has ended stays as it is."""
    gateway, task = gateway_of(request), await _task(request)
    asked = task.request
    if not task.status.terminal:
        word = Control(asked.request_id, asked.run, ControlAction.CANCEL, now_ms(), "cancelled over HTTP")
        await gateway.intake.write(control_record(gateway.codec, word))
        task = await ended_task(gateway, request, task, _CANCEL)
    return _told(request, task)


async def delete(request: web.Request) -> web.Response:
    """
    Raises:
        HTTPMethodNotAllowed: always.
    """
    ttl = gateway_of(request).settings.gateway.result_ttl
    raise web.HTTPMethodNotAllowed(
        request.method,
        ["GET"],
        reason=f"a response can not be deleted; it is kept until {ttl:g} s after its end",
    )


def routes() -> Iterable[web.RouteDef]:
    return (
        web.post("/v1/responses", create),
        web.get("/v1/responses/{id}", show, allow_head=False),
        web.delete("/v1/responses/{id}", delete),
        web.post("/v1/responses/{id}/cancel", cancel),
    )


async def _task(request: web.Request) -> Task:
    """
    Raises:
        NotFoundError: there is no such response.
        GoneError: its result is not kept any more.
    """
    name = request.match_info["id"]
    if not name.startswith(_PREFIX):
        raise NotFoundError(f"a response's id begins with {_PREFIX}")
    return await visible_task(request, name.removeprefix(_PREFIX))


def _told(request: web.Request, task: Task, *, background: bool | None = None) -> web.Response:
    model = model_name(gateway_of(request).settings)
    return web.json_response(response_document(task, model, background=background))


async def _streamed(request: web.Request, task: Task, after: int) -> web.StreamResponse:
    gateway = gateway_of(request)
    voice = _Voice(ResponseEvents(task.request.request_id, after), model_name(gateway.settings))
    return await streamed(request, gateway, task, voice, voice.created(task))


class _Voice:
    def __init__(self, events: ResponseEvents, model: str) -> None:
        self._events, self._model = events, model

    def created(self, task: Task) -> Iterable[bytes]:
        return _lines(self._events.created(self._document(_unended(task))))

    def begun(self, task: Task) -> Iterable[bytes]:
        return _lines(self._events.working(self._document(task)))

    def preview(self, task: Task, text: str) -> Iterable[bytes]:
        return _lines(self._events.preview(self._document(task), text))

    def gap(self) -> None:
        self._events.gap()

    def ended(self, task: Task) -> Iterable[bytes]:
        document, working = self._document(task), self._document(_unended(task))
        if document["output"]:
            return _lines(self._events.answered(working, document, text_of(task.result)))
        return _lines(self._events.broken_off(working, document))

    def _document(self, task: Task) -> dict[str, Any]:
        return response_document(task, self._model)


def _unended(task: Task) -> Task:
    """As it was while it ran."""
    return replace(task, status=Status.RUNNING) if task.status.terminal else task


def _lines(events: Iterable[Event]) -> Iterable[bytes]:
    return [sse(event, named=True) for event in events]


def _number(text: str | None) -> int:
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidRequestError("starting_after is the sequence_number of an event", field="starting_after")
    return int(text)
