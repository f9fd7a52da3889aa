from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.gateway.docs import document, kind_of
from pipeline.gateway.openai.errors import PATHS
from tests.unit.gateway.gateway_world import world

NOT_DESCRIBED = {("GET", "/docs/style.css")}


async def test_every_route_is_described_and_nothing_else(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        served = {
            (route.method, route.resource.canonical)
            for route in here.app.router.routes()
            if route.method != "HEAD" and route.resource is not None
            if not route.resource.canonical.startswith(PATHS)  # OpenAI's own description has them
        }
    described = {
        (method.upper(), path) for path, methods in document()["paths"].items() for method in methods
    }
    assert served - NOT_DESCRIBED == described


async def test_the_description_is_served_to_everybody(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        status, headers, body = await here.call("GET", "/openapi.json")
        assert (status, body["openapi"], headers["Content-Type"]) == (200, "3.1.0", "application/json")
        status, headers, page = await here.call("GET", "/docs")
        assert (status, "POST" in page, "createTask" in page) == (200, True, True)
        for link in re.findall(r'(?:href|src)="([^"]*)"', page):
            assert link.startswith(("/", "#")), "no outside host"
            if link.startswith("/") and link != "/":
                assert (await here.call("GET", link))[0] == 200
            elif link.startswith("#"):
                assert f'id="{link[1:]}"' in page
        assert "<script" not in page
        assert "style=" not in page


def test_every_reference_leads_somewhere() -> None:
    schemas = document()["components"]["schemas"]

    def check(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                assert value["$ref"].rpartition("/")[2] in schemas
            for each in value.values():
                check(each)
        elif isinstance(value, list):
            for each in value:
                check(each)

    check(document())


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 5}, "integer from 0 to 5"),
        ({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}, "number above 0 or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/VoteDocument"}}, "array of VoteDocument"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map of string"),
        ({"type": "string", "enum": ["a", "b"]}, "a · b"),
        ({}, "any"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], text: str) -> None:
    assert kind_of(schema) == text
