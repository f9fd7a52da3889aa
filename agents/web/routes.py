"""The page's routes, and what it keeps while the gateway runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from aiohttp import web

from agents.web import ask, login, operations, overview, resending, task_list, task_page
from agents.web.agents_here import AGENTS_HERE, AgentsHere
from agents.web.overview import TRAFFIC
from agents.web.static_files import static_file
from agents.web.templating import error_page
from agents.web.traffic import Traffic
from pipeline.gateway.context import GATEWAY
from pipeline.gateway.problems import ERROR_PAGE
from pipeline.health_server import read_agents
from pipeline.store.rows import Stored
from pipeline.telemetry import now_ms


def add_page(app: web.Application) -> None:
    """Serve the page from a gateway's application, before it runs."""
    gateway, traffic = app[GATEWAY], Traffic()

    def seen(lot: Sequence[Stored]) -> None:
        for stored in lot:
            traffic.add(stored.event, stored.at)
        traffic.stands(gateway.store.load().waiting, now_ms())

    gateway.store.listen(seen)
    app[TRAFFIC] = traffic
    app[AGENTS_HERE] = AgentsHere(partial(read_agents, gateway.settings))
    app[ERROR_PAGE] = error_page
    app.add_routes(routes())


def routes() -> Iterable[web.RouteDef]:
    return (
        web.get("/", overview.overview),
        web.get("/page/flow", overview.flow),
        web.get("/page/history", overview.history),
        web.get("/page/newest", overview.newest_rows),
        web.get("/ask", ask.show),
        web.post("/ask", ask.ask),
        web.get("/tasks", task_list.tasks),
        web.get("/tasks/{id}", task_page.show),
        web.get("/tasks/{id}/samples/{index}", task_page.sample),
        web.post("/tasks/{id}/cancel", task_page.cancel),
        web.get("/deliveries", operations.deliveries),
        web.post("/deliveries/resend", resending.resend),
        web.get("/dead-letters", operations.dead_letters),
        web.post("/dead-letters/replay", operations.replay),
        web.get("/login", login.show),
        web.post("/login", login.sign_in),
        web.post("/logout", login.sign_out),
        web.get("/static/{name:.+}", static_file),
    )
