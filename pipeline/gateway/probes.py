"""``/healthz`` and ``/readyz``: for what runs the process and for what sends it traffic."""

from __future__ import annotations

import os
from collections.abc import Iterable

from aiohttp import web

from pipeline import __version__
from pipeline.gateway.access import public
from pipeline.gateway.context import gateway_of


@public
async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return web.json_response(
        {
            "status": "ok",
            "role": "gateway",
            "slot": gateway_of(request).settings.slot,
            "pid": os.getpid(),
            "version": __version__,
        }
    )


@public
async def readyz(request: web.Request) -> web.Response:
    """The view has once been up to date, so that what is asked for can be found."""
    ready = await gateway_of(request).store.caught_up()
    return web.json_response({"ready": ready}, status=200 if ready else 503)


def routes() -> Iterable[web.RouteDef]:
    return (web.get("/healthz", healthz), web.get("/readyz", readyz))
