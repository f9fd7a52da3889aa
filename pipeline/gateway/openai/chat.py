"""``/v1/chat/completions``: asks a task and waits for its end."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from pipeline.errors import InvalidRequestError, TaskFailedError, WaitLimitError
from pipeline.events import Status
from pipeline.gateway.body_reader import read_json
from pipeline.gateway.context import Gateway, gateway_of
from pipeline.gateway.openai.answers import chat_document
from pipeline.gateway.openai.asking import chat_request
from pipeline.gateway.openai.bodies import ChatBody
from pipeline.gateway.openai.chat_events import ChatEvents
from pipeline.gateway.openai.errors import error_document
from pipeline.gateway.openai.models import check_model, model_name
from pipeline.gateway.openai.streaming import DONE, sse, streamed
from pipeline.gateway.openai.submitting import asker_of, submitted_task
from pipeline.gateway.openai.waiting import ended_task
from pipeline.store.tasks import Task


async def create(request: web.Request) -> web.StreamResponse:
    """Ask; the answer, or a stream of it."""
    gateway = gateway_of(request)
    body = await read_json(request, ChatBody)
    check_model(gateway.settings, body.model)
    task = await submitted_task(request, chat_request(body, asker_of(request)))
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        events = ChatEvents(task, model_name(gateway.settings), usage=usage)
        return await streamed(request, gateway, task, _Voice(events))
    task = await ended_task(gateway, request, task, gateway.settings.gateway.wait_limit)
    return web.json_response(answered(gateway, task))


def answered(gateway: Gateway, task: Task) -> dict[str, object]:
    """The completion of a task that has ended with an answer.

    Raises:
        WaitLimitError, TaskFailedError, InvalidRequestError: as ``check_answered``.
    """
    check_answered(task)
    return chat_document(task, model_name(gateway.settings))


def check_answered(task: Task) -> None:
    """
    Raises:
        WaitLimitError: it has not ended.
        TaskFailedError: it has ended without an answer.
        InvalidRequestError: and another time it would too.
    """
    name = f"task {task.request.request_id}"
    if not task.status.terminal:
        raise WaitLimitError(f"{name} still runs, and goes on: ask for it at /v1/tasks, or as a response")
    if task.status is Status.CANCELLED:
        raise TaskFailedError(f"{name} was cancelled")
    if task.status is Status.FAILED:
        error = task.result.error if task.result else None
        told = f"{name} has failed: {error.code}: {error.message}" if error else f"{name} has failed"
        raise (TaskFailedError if error is None or error.retriable else InvalidRequestError)(told)


class _Voice:
    def __init__(self, events: ChatEvents) -> None:
        self._events = events

    def begun(self, task: Task) -> Iterable[bytes]:
        return ()

    def preview(self, task: Task, text: str) -> Iterable[bytes]:
        return map(sse, self._events.preview(text))

    def gap(self) -> None:
        self._events.gap()

    def ended(self, task: Task) -> Iterable[bytes]:
        try:
            check_answered(task)
        except (TaskFailedError, InvalidRequestError) as error:
            yield sse(error_document(error))
            return
        yield from map(sse, self._events.answered(task))
        yield DONE


def routes() -> Iterable[web.RouteDef]:
    return (web.post("/v1/chat/completions", create),)
