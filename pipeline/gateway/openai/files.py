"""``/v1/files``: what batches read and write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from pipeline.gateway.context import principal_of
from pipeline.gateway.openai.file_store import FileStore, StoredFile
from pipeline.gateway.openai.paging import page
from pipeline.gateway.openai.uploading import uploaded

FILES: web.AppKey[FileStore] = web.AppKey("openai_files", FileStore)
_MOST = 10_000


async def create(request: web.Request) -> web.Response:
    return web.json_response(_document(await uploaded(request, request.config_dict[FILES])))


async def list_files(request: web.Request) -> web.Response:
    """A page of them; ``purpose`` chooses."""
    found = await asyncio.to_thread(request.config_dict[FILES].visible, principal_of(request))
    purpose = request.query.get("purpose")
    items = [(file.id, _document(file)) for file in found if purpose in (None, file.purpose)]
    return web.json_response(page(request, items, _MOST))


async def show(request: web.Request) -> web.Response:
    return web.json_response(_document(await _file(request)))


async def content(request: web.Request) -> web.StreamResponse:
    """Its bytes."""
    file = await _file(request)
    headers = {"Content-Type": "application/octet-stream", "Content-Disposition": "attachment"}
    return web.FileResponse(request.config_dict[FILES].data(file.id), headers=headers)


async def delete(request: web.Request) -> web.Response:
    file = await _file(request)
    await asyncio.to_thread(request.config_dict[FILES].delete, file)
    return web.json_response({"id": file.id, "object": "file", "deleted": True})


def routes() -> Iterable[web.RouteDef]:
    return (
        web.post("/v1/files", create),
        web.get("/v1/files", list_files),
        web.get("/v1/files/{id}", show),
        web.delete("/v1/files/{id}", delete),
        web.get("/v1/files/{id}/content", content),
    )


async def _file(request: web.Request) -> StoredFile:
    """
    Raises:
        NotFoundError: there is none that who asks may see.
    """
    store = request.config_dict[FILES]
    return await asyncio.to_thread(store.find, request.match_info["id"], principal_of(request))


def _document(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": file.created_at,
        "expires_at": file.expires_at,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
    }
