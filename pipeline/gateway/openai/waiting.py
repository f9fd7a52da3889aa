"""Waiting for a task's end, for who asked over HTTP and stays."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from pipeline.errors import DependencyDownError, OverloadedError
from pipeline.events import Result
from pipeline.gateway.context import Gateway
from pipeline.store.tasks import Task


async def ended_task(gateway: Gateway, request: web.Request, task: Task, seconds: float) -> Task:
    """The task as it is once it has ended, or when the time is over, or when nobody waits any more.

    Args:
        task: as far as it is known; the view may be behind, or away for a while, which is no reason to give up.

    Raises:
        OverloadedError: the gateway stops.
    """
    with (
        gateway.hub.listening(task.request.request_id, task.expected) as (listener, _),
        suppress(TimeoutError),
    ):
        async with asyncio.timeout(seconds):
            # Behind the registration: what the view lacks now, the listener hears.
            task = await _newer(gateway, task)
            while not task.status.terminal and not _gone(request):
                came = await listener.wait()
                if listener.lost is not None:
                    raise OverloadedError("this gateway stops; the task goes on", retry_after=1.0)
                if any(isinstance(record.event, Result) for record in came):
                    task = await _newer(gateway, task)
    return task


async def _newer(gateway: Gateway, task: Task) -> Task:
    try:
        return await gateway.store.task(task.request.request_id) or task
    except DependencyDownError:
        return task


def _gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
