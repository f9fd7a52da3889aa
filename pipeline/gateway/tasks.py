"""``/v1/tasks``: asking, looking, listing, cancelling."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from aiohttp import web

from pipeline.client import control_record
from pipeline.delivery.guard import Guard
from pipeline.errors import InvalidRequestError
from pipeline.events import Control, ControlAction, Status
from pipeline.gateway.bodies import TaskBody
from pipeline.gateway.body_reader import read_json
from pipeline.gateway.context import Gateway, gateway_of, principal_of, visible_task
from pipeline.gateway.documents import accepted_document, links, list_document, task_document
from pipeline.gateway.idempotency import REPLAYED, idempotency_key
from pipeline.store.tasks import Task, TaskFilter
from pipeline.telemetry import now_ms

PAGE, LARGEST_PAGE = 50, 100
INCLUDES = frozenset({"samples", "request", "deliveries"})


async def create(request: web.Request) -> web.Response:
    """Take a task; 202 once Kafka has it."""
    gateway, principal = gateway_of(request), principal_of(request)
    key = idempotency_key(request)
    body = await read_json(request, TaskBody)
    webhook = gateway.settings.webhook
    asked = body.to_request("", principal.tenant, Guard(webhook.allow_private, webhook.allowed_ports))
    submitted = await gateway.submissions.submit(asked, principal, key)
    request_id, run = submitted.request.request_id, submitted.request.run
    headers = {"Location": links(request_id).self}
    if submitted.replayed:
        headers[REPLAYED] = "true"
    document = accepted_document(request_id, submitted.status, run)
    return web.json_response(document, status=HTTPStatus.ACCEPTED, headers=headers)


async def show(request: web.Request) -> web.Response:
    """One task; ``?include=samples,request,deliveries`` adds to it."""
    store = gateway_of(request).store
    wanted = {part for text in request.query.getall("include", []) for part in text.split(",") if part}
    if unknown := wanted - INCLUDES:
        raise InvalidRequestError(
            f"include can be {', '.join(sorted(INCLUDES))}, not {sorted(unknown)[0][:64]!r}", field="include"
        )
    task = await visible_task(request, request.match_info["id"])
    asked = task.request
    document = task_document(
        task,
        samples=await store.samples(asked.request_id, asked.run) if "samples" in wanted else None,
        deliveries=await store.deliveries(asked.request_id) if "deliveries" in wanted else None,
        request="request" in wanted,
    )
    return web.json_response(document)


async def list_tasks(request: web.Request) -> web.Response:
    """A page of tasks, newest first."""
    query, principal = request.query, principal_of(request)
    tenant = query.get("tenant") if principal.admin else principal.tenant
    wanted = TaskFilter(
        tenant=tenant,
        statuses=tuple(
            _status(part) for text in query.getall("status", []) for part in text.split(",") if part
        ),
        since=_moment(query.get("since"), "since"),
        until=_moment(query.get("until"), "until"),
        batch=query.get("batch"),
    )
    page = await gateway_of(request).store.tasks(
        wanted, after=query.get("cursor"), limit=_limit(query.get("limit"))
    )
    return web.json_response(list_document(page))


async def cancel(request: web.Request) -> web.Response:
    """Stop a task: 202 once Kafka has the order; 200 with the task when it has ended already."""
    gateway = gateway_of(request)
    task = await visible_task(request, request.match_info["id"])
    document: dict[str, Any] = task_document(task)
    if task.status.terminal:
        return web.json_response(document)
    await cancel_task(gateway, task)
    return web.json_response(document, status=HTTPStatus.ACCEPTED)


async def cancel_task(gateway: Gateway, task: Task) -> None:
    """Give the order to stop a task; returns when Kafka has it. One that has ended stays as it is.

    Raises:
        OverloadedError, BrokerDownError: it may not have it.
    """
    run = task.request.run
    word = Control(task.request.request_id, run, ControlAction.CANCEL, now_ms(), "cancelled over HTTP")
    await gateway.intake.write(control_record(gateway.codec, word))


def routes() -> Iterable[web.RouteDef]:
    return (
        web.post("/v1/tasks", create),
        web.get("/v1/tasks", list_tasks),
        web.get("/v1/tasks/{id}", show),
        web.delete("/v1/tasks/{id}", cancel),
    )


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise InvalidRequestError(f"status can be {', '.join(Status)}", field="status") from None


def _moment(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidRequestError(
            f"{field} is a time in ISO 8601, as 2026-05-01T12:00:00Z", field=field
        ) from None


def _limit(text: str | None) -> int:
    if text is None:
        return PAGE
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= LARGEST_PAGE):
        raise InvalidRequestError(f"limit is 1 to {LARGEST_PAGE}", field="limit")
    return int(text)
