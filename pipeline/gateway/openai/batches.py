"""``/v1/batches``: many questions in a file, answered in files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from pipeline.errors import InvalidRequestError
from pipeline.events import Callback
from pipeline.gateway.body_reader import read_json
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.gateway.openai.batch_record import Batch, BatchFolder, BatchStatus, new_batch_id, now
from pipeline.gateway.openai.batch_runner import BatchRunner
from pipeline.gateway.openai.bodies import BatchBody
from pipeline.gateway.openai.file_store import sees
from pipeline.gateway.openai.files import FILES
from pipeline.gateway.openai.paging import page
from pipeline.gateway.openai.submitting import guard_of
from pipeline.gateway.openai.uploading import PURPOSE

BATCHES: web.AppKey[BatchFolder] = web.AppKey("openai_batches", BatchFolder)
RUNNER: web.AppKey[BatchRunner] = web.AppKey("openai_batch_runner", BatchRunner)
_DAY: Final = 86_400
_MOST: Final = 100


async def create(request: web.Request) -> web.Response:
    """Take a batch; it is served from now on, whatever becomes of this gateway."""
    body, principal = await read_json(request, BatchBody), principal_of(request)
    file = await asyncio.to_thread(request.config_dict[FILES].find, body.input_file_id, principal)
    if file.purpose != PURPOSE:
        raise InvalidRequestError(f"its purpose is {file.purpose}, not {PURPOSE}", field="input_file_id")
    callback = None
    if body.callback is not None:
        guard_of(gateway_of(request).settings).check_url(body.callback.url)
        callback = Callback(body.callback.url, body.callback.secret_id or "default", ())
    at = now()
    batch = Batch(
        id=new_batch_id(),
        owner=principal,
        endpoint=body.endpoint,
        input_file_id=file.id,
        created_at=at,
        expires_at=at + _DAY,
        metadata=body.metadata,
        callback=callback,
    )
    folder = request.config_dict[BATCHES]
    data = request.config_dict[FILES].data(file.id)
    await asyncio.to_thread(folder.take_input, batch.id, data)
    await asyncio.to_thread(folder.write, batch)
    request.config_dict[RUNNER].look()
    return web.json_response(_document(batch, None))


async def show(request: web.Request) -> web.Response:
    return web.json_response(_document(*await _batch(request)))


async def list_batches(request: web.Request) -> web.Response:
    """A page of them, newest first."""
    found = await asyncio.to_thread(_visible, request)
    items = [(batch.id, _document(batch, cancelled_at)) for batch, cancelled_at in found]
    return web.json_response(page(request, items, _MOST))


async def cancel(request: web.Request) -> web.Response:
    """Stop it: what has ended by then is in its files; one that has ended stays as it is."""
    batch, cancelled_at = await _batch(request)
    if not batch.status.terminal and cancelled_at is None:
        cancelled_at = await asyncio.to_thread(request.config_dict[BATCHES].cancel, batch.id)
    return web.json_response(_document(batch, cancelled_at))


def routes() -> Iterable[web.RouteDef]:
    return (
        web.post("/v1/batches", create),
        web.get("/v1/batches", list_batches),
        web.get("/v1/batches/{id}", show),
        web.post("/v1/batches/{id}/cancel", cancel),
    )


async def _batch(request: web.Request) -> tuple[Batch, int | None]:
    """A batch, and when it was ordered to stop.

    Raises:
        NotFoundError: there is none that who asks may see.
    """
    folder, batch_id = request.config_dict[BATCHES], request.match_info["id"]
    batch = await asyncio.to_thread(folder.find, batch_id, principal_of(request))
    return batch, await asyncio.to_thread(folder.cancelled_at, batch_id)


def _visible(request: web.Request) -> list[tuple[Batch, int | None]]:
    folder, principal = request.config_dict[BATCHES], principal_of(request)
    found = [batch for batch in folder.all() if sees(principal, batch.owner.tenant)]
    found.sort(key=lambda batch: (batch.created_at, batch.id), reverse=True)
    return [(batch, folder.cancelled_at(batch.id)) for batch in found]


def _document(batch: Batch, cancelled_at: int | None) -> dict[str, Any]:
    status = batch.status
    if cancelled_at is not None and not status.terminal:
        status = BatchStatus.CANCELLING
    problems = [{"code": "invalid_input", "message": batch.failure, "line": None, "param": None}]
    ended = {f"{status}_at": batch.ended_at} if status.terminal else {}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": problems} if batch.failure else None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": batch.created_at,
        "in_progress_at": batch.in_progress_at,
        "expires_at": batch.expires_at,
        "finalizing_at": batch.finalizing_at,
        "cancelling_at": cancelled_at,
        **dict.fromkeys(("completed_at", "failed_at", "expired_at", "cancelled_at")),
        **ended,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "metadata": batch.metadata,
    }
