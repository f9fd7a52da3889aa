"""``/tasks/{id}``: one task, its samples, and stopping it."""

from __future__ import annotations

import asyncio

from aiohttp import web

from agents.web.forms import by_htmx, went
from agents.web.templating import page
from agents.web.views import DeliveryView, TaskView, overrides, sample_card, task_view
from pipeline.errors import NotFoundError
from pipeline.events import DeliveryState
from pipeline.gateway.context import gateway_of, visible_task
from pipeline.gateway.tasks import cancel_task
from pipeline.store.store import Store
from pipeline.store.tasks import Task


async def show(request: web.Request) -> web.Response:
    task = await visible_task(request, request.match_info["id"])
    view = await _view(gateway_of(request).store, task)
    return _page(request, view)


async def sample(request: web.Request) -> web.Response:
    """One sample that has been drawn, whose card it replaces."""
    task = await visible_task(request, request.match_info["id"])
    drawn = await gateway_of(request).store.samples(task.request.request_id, task.request.run)
    wanted = request.match_info["index"]
    found = next((each for each in drawn if str(each.sample_index) == wanted), None)
    if found is None:
        raise NotFoundError("there is no such sample yet")
    return page(request, "sample.html", each=sample_card(found))


async def cancel(request: web.Request) -> web.Response:
    """Give the order; its page shows when it is carried out."""
    task = await visible_task(request, request.match_info["id"])
    await cancel_task(gateway_of(request), task)
    view = await _view(gateway_of(request).store, task)
    return _page(request, view, stopping=True) if by_htmx(request) else went(request, view.path)


def _page(request: web.Request, view: TaskView, *, stopping: bool = False) -> web.Response:
    asked = overrides(view.task.request.sampling)
    live = _more_comes(view)
    return page(request, "task.html", view=view, asked=asked, live=live, stopping=stopping)


async def _view(store: Store, task: Task) -> TaskView:
    request_id, run = task.request.request_id, task.request.run
    samples = await store.samples(request_id, run)
    newest = [each for each in await store.deliveries(request_id) if each.run == run]
    attempts = await asyncio.gather(*(store.attempts(each.delivery_id) for each in newest))
    return task_view(task, samples, map(DeliveryView, newest, attempts))


def _more_comes(view: TaskView) -> bool:
    """Whether there is something to listen for: an end, or what becomes of its callbacks."""
    if not view.ended:
        return True
    told = bool(view.deliveries)
    waits = any(each.newest.state is DeliveryState.PENDING for each in view.deliveries)
    return view.task.request.callback is not None and (waits or not told)
