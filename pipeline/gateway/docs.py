"""``/openapi.json`` and ``/docs``: what can be called, for programs and to be read. Nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.gateway.access import public
from pipeline.gateway.openapi import openapi_document
from pipeline.gateway.operations import TASKS

_TEMPLATES = Path(__file__).parent / "templates"
_KEPT = {"Cache-Control": "max-age=300"}


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of everything that is served."""
    return openapi_document(TASKS)


@public
async def openapi(request: web.Request) -> web.Response:
    return web.Response(body=msgspec.json.encode(document()), content_type="application/json", headers=_KEPT)


@public
async def docs(request: web.Request) -> web.Response:
    return web.Response(text=_page(), content_type="text/html", headers=_KEPT)


@public
async def style(request: web.Request) -> web.Response:
    return web.Response(
        text=(_TEMPLATES / "docs.css").read_text("utf-8"), content_type="text/css", headers=_KEPT
    )


def routes() -> Iterable[web.RouteDef]:
    return (web.get("/openapi.json", openapi), web.get("/docs", docs), web.get("/docs/style.css", style))


@cache
def _page() -> str:
    loader = FileSystemLoader(_TEMPLATES)
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return templates.get_template("docs.html").render(document=document(), kind=kind_of)


def kind_of(schema: dict[str, Any]) -> str:
    """A schema in a few words: ``integer, 0 to 5``, ``array of Vote``, ``string or null``."""
    if "anyOf" in schema:
        return " or ".join(kind_of(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "enum" in schema:
        return " · ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"array of {kind_of(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {kind_of(schema['additionalProperties'])}"
    bounds = [
        f"{word} {schema[name]}"
        for name, word in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if name in schema
    ]
    return " ".join([str(schema.get("type", "any")), *bounds])
