"""OpenAI's routes, and what they need, in the gateway's application."""

from __future__ import annotations

from aiohttp import web

from pipeline.gateway.openai import chat, models, responses
from pipeline.gateway.openai.errors import openai_errors


def add_openai(app: web.Application) -> None:
    """Call it before the application runs."""
    app.middlewares.insert(0, openai_errors)
    for routes in (models.routes(), responses.routes(), chat.routes()):
        app.add_routes(routes)
