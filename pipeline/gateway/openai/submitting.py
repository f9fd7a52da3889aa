"""Letting in what an OpenAI client asks, as any other task."""

from __future__ import annotations

from aiohttp import web

from pipeline.delivery.guard import Guard
from pipeline.events import InferenceRequest
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.gateway.idempotency import idempotency_key
from pipeline.gateway.openai.asking import Asker
from pipeline.settings import Settings
from pipeline.store.tasks import Task
from pipeline.telemetry import now_ms


def asker_of(request: web.Request) -> Asker:
    return Asker(principal_of(request).tenant, guard_of(gateway_of(request).settings))


def guard_of(settings: Settings) -> Guard:
    """Where callbacks may go."""
    return Guard(settings.webhook.allow_private, settings.webhook.allowed_ports)


async def submitted_task(request: web.Request, asked: InferenceRequest) -> Task:
    """The task once Kafka has it, as it was asked: the view may not show it yet.

    Raises:
        TallystreamError: as ``Submissions.submit``.
    """
    gateway = gateway_of(request)
    submitted = await gateway.submissions.submit(asked, principal_of(request), idempotency_key(request))
    known = await gateway.store.task(submitted.request.request_id) if submitted.replayed else None
    now = now_ms()
    return known or Task(submitted.request, submitted.status, accepted_at=now, updated_at=now)
