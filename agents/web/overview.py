"""``/``: the pipeline now, the form to ask, the newest tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aiohttp import web

from agents.web.agents_here import AGENTS_HERE
from agents.web.ask import AskForm, choices
from agents.web.flow import Flow, flow_of
from agents.web.task_list import tenant_seen
from agents.web.templating import page
from agents.web.traffic import Passing, Traffic
from agents.web.views import row_of
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.store.tasks import TaskFilter
from pipeline.telemetry import now_ms

_NEWEST = 10
TRAFFIC = web.AppKey("traffic", Traffic)


async def overview(request: web.Request) -> web.Response:
    newest = await gateway_of(request).store.tasks(TaskFilter(tenant=tenant_seen(request)), limit=_NEWEST)
    return page(
        request,
        "overview.html",
        **await _flow(request),
        **choices(),
        form=AskForm(),
        rows=[row_of(task) for task in newest.tasks],
        poll="/page/newest",
        filtered=False,
    )


async def newest_rows(request: web.Request) -> web.Response:
    newest = await gateway_of(request).store.tasks(TaskFilter(tenant=tenant_seen(request)), limit=_NEWEST)
    rows = [row_of(task) for task in newest.tasks]
    return page(request, "task_rows.html", rows=rows, poll="/page/newest", filtered=False)


async def flow(request: web.Request) -> web.Response:
    return page(request, "flow.html", **await _flow(request))


async def history(request: web.Request) -> web.Response:
    """What the chart draws."""
    return web.json_response(asdict(request.app[TRAFFIC].series(now_ms())))


async def _flow(request: web.Request) -> dict[str, Any]:
    now, traffic, store = now_ms(), request.app[TRAFFIC], gateway_of(request).store
    load = store.load()
    traffic.stands(load.waiting, now)  # the view's own word of it comes before its numbers do
    rates = {each: traffic.rate(each, now) for each in Passing}
    agents = await request.app[AGENTS_HERE].look() if principal_of(request).admin else None
    picture: Flow = flow_of(load, rates, agents, now)
    return {"flow": picture, "problem": store.problem}
