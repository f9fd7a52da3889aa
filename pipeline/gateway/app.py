"""The gateway's application: its routes, and what stands around every one of them."""

from __future__ import annotations

from aiohttp import web

from pipeline.gateway import docs, measures, probes, tasks
from pipeline.gateway.access import access_middleware
from pipeline.gateway.context import GATEWAY, Gateway
from pipeline.gateway.headers import add_headers
from pipeline.gateway.problems import problem_middleware
from pipeline.gateway.spans import trace_middleware
from pipeline.live import http as live


def build_app(gateway: Gateway) -> web.Application:
    """Everything that is served, but the page and OpenAI's API, which are added to it."""
    app = web.Application(
        middlewares=[measures.measure_middleware, trace_middleware, problem_middleware, access_middleware],
        client_max_size=gateway.settings.gateway.body_limit,
    )
    app[GATEWAY] = gateway
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_let_go)
    for routes in (probes.routes(), measures.routes(), docs.routes(), tasks.routes(), live.routes()):
        app.add_routes(routes)
    return app


async def _let_go(app: web.Application) -> None:
    """Who listens would otherwise be waited for."""
    app[GATEWAY].hub.close()
