"""What a call is named by: an id of its own, by which a client and the log mean the same one; and its route."""

from __future__ import annotations

import re
import secrets

from aiohttp import web

HEADER = "X-Request-Id"
_SAFE = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_ID = web.RequestKey("call_id", str)


def request_id_of(request: web.Request) -> str:
    """The client's own, if it can stand in a header and a line of a log; else one made here."""
    if _ID not in request:
        told = request.headers.get(HEADER, "")
        request[_ID] = told if _SAFE.fullmatch(told) else secrets.token_hex(8)
    return request[_ID]


def route_of(request: web.Request) -> str:
    """The route that a call met, as it is written: its path may hold anything; empty: it met none."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else ""
