"""``/healthz`` and ``/readyz``: for what runs the process and for what sends it traffic."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal

from aiohttp import web
from pydantic import BaseModel

from pipeline import __version__
from pipeline.gateway.access import public
from pipeline.gateway.context import gateway_of


class Health(BaseModel):
    """Who answers."""

    status: Literal["ok"] = "ok"
    role: Literal["gateway"] = "gateway"
    slot: int
    pid: int
    version: str


class Readiness(BaseModel):
    """Whether tasks are found and heard, and why the view does not go on, if it does not."""

    ready: bool
    problem: str | None


@public
async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    health = Health(slot=gateway_of(request).settings.slot, pid=os.getpid(), version=__version__)
    return web.json_response(health.model_dump())


@public
async def readyz(request: web.Request) -> web.Response:
    """The view has once been up to date, so that what is asked for can be found, and progress is followed."""
    gateway = gateway_of(request)
    ready = gateway.hub.hears and await gateway.store.caught_up()
    readiness = Readiness(ready=ready, problem=gateway.store.problem)
    return web.json_response(readiness.model_dump(), status=200 if readiness.ready else 503)


def routes() -> Iterable[web.RouteDef]:
    return (web.get("/healthz", healthz), web.get("/readyz", readyz))
