"""OpenAI's routes, and what they need, in the gateway's application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from pipeline.gateway.context import GATEWAY
from pipeline.gateway.openai import batches, chat, files, models, responses
from pipeline.gateway.openai.batch_record import BatchFolder
from pipeline.gateway.openai.batch_runner import BatchRunner
from pipeline.gateway.openai.errors import openai_errors
from pipeline.gateway.openai.file_store import FileStore
from pipeline.settings import Settings


def add_openai(app: web.Application) -> None:
    """Call it before the application runs."""
    app.middlewares.insert(0, openai_errors)
    app.cleanup_ctx.append(_serve_batches)
    for routes in (
        models.routes(),
        responses.routes(),
        chat.routes(),
        files.routes(),
        batches.routes(),
    ):
        app.add_routes(routes)


def files_folder(settings: Settings) -> Path:
    return settings.gateway.files_folder or settings.home / "files"


async def _serve_batches(app: web.Application) -> AsyncGenerator[None]:
    gateway = app[GATEWAY]
    store = app[files.FILES] = await asyncio.to_thread(FileStore, files_folder(gateway.settings))
    folder = app[batches.BATCHES] = BatchFolder(store.folder)
    runner = app[batches.RUNNER] = BatchRunner(gateway, store, folder)
    serving = asyncio.create_task(runner.run())
    yield
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
