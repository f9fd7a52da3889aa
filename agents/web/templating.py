"""Templates to responses. Everything is escaped: what models and strangers wrote is text here, never markup."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from agents.web import words
from agents.web.static_files import static_url
from pipeline.gateway.context import PRINCIPAL, gateway_of
from pipeline.gateway.problems import Problem
from pipeline.telemetry import now_ms


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = static_url
    environment.filters.update(
        ago=words.ago,
        full_time=words.full_time,
        duration=words.duration,
        rate=words.rate,
        state_word=words.state_word,
        state_tone=words.state_tone,
    )
    return environment


_ENVIRONMENT = _environment()


def rendered(name: str, **context: Any) -> str:
    """A template's text. ``now`` (ms) is the moment that times are told from."""
    return _ENVIRONMENT.get_template(name).render({"now": now_ms(), **context})


def page(request: web.Request, name: str, *, status: int = HTTPStatus.OK, **context: Any) -> web.Response:
    """A whole page, or a part of one."""
    principal = request.get(PRINCIPAL)
    context |= {
        "principal": principal,
        "demo": gateway_of(request).keys.open,
        "here": request.path.partition("/")[2].partition("/")[0],
    }
    return web.Response(text=rendered(name, **context), status=status, content_type="text/html")


def error_page(request: web.Request, problem: Problem) -> web.Response:
    """A problem as a page; who has no key yet is shown where to give it."""
    if problem.status == HTTPStatus.UNAUTHORIZED and request.method == "GET":
        to = f"/login?{urlencode({'next': request.rel_url.raw_path})}"
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": to})
    return page(request, "problem.html", status=problem.status, problem=problem)
