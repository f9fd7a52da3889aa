"""``/v1/models``: the one model that answers here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from pipeline.engine.default_model import NAME
from pipeline.errors import ModelNotFoundError
from pipeline.gateway.context import gateway_of
from pipeline.settings import EngineName, Settings

ALIAS: Final = "tallystream"
_CREATED = 0
"""Nobody knows when a model was made; the field is required."""


def model_name(settings: Settings) -> str:
    """As the settings have it; of a folder its last part."""
    if settings.engine.name is EngineName.HTTP and settings.http_engine.model:
        return settings.http_engine.model
    if not settings.model:
        return NAME
    return Path(settings.model).name if settings.model.startswith(("/", ".", "~")) else settings.model


def check_model(settings: Settings, name: str) -> None:
    """
    Raises:
        ModelNotFoundError: nothing here has this name.
    """
    known = model_name(settings)
    if name not in (known, ALIAS):
        raise ModelNotFoundError(
            f"the model here is {known!r}, also called {ALIAS!r}, not {name[:64]!r}", field="model"
        )


async def list_models(request: web.Request) -> web.Response:
    names = dict.fromkeys((model_name(gateway_of(request).settings), ALIAS))
    return web.json_response({"object": "list", "data": [_document(name) for name in names]})


async def show_model(request: web.Request) -> web.Response:
    name = request.match_info["model"]
    check_model(gateway_of(request).settings, name)
    return web.json_response(_document(name))


def routes() -> Iterable[web.RouteDef]:
    return (web.get("/v1/models", list_models), web.get("/v1/models/{model:.+}", show_model))


def _document(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": ALIAS}
