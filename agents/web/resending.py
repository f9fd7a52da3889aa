"""``/deliveries/resend``: a callback that has failed, once more, as ``tallystream deliveries resend`` does."""

from __future__ import annotations

import asyncio

from aiohttp import web

from agents.web.forms import posted, went
from agents.web.operations import only_admins
from agents.web.views import path_of
from pipeline.delivery.history import Selection
from pipeline.delivery.resend import Plan, Resend
from pipeline.errors import InvalidRequestError, NotFoundError
from pipeline.events import DeliveryState
from pipeline.gateway.context import Gateway, gateway_of
from pipeline.store.store import Store
from pipeline.telemetry import now_ms

_LOOK, _LOOKS = 0.1, 50
"""Seconds between two looks at the view, and how many."""


async def resend(request: web.Request) -> web.Response:
    """Ask for it, and show its task once the view knows."""
    only_admins(request)
    gateway = gateway_of(request)
    delivery_id = (await posted(request)).get("delivery", "")
    known = await gateway.store.attempts(delivery_id)
    if not known:
        raise NotFoundError("there is no such callback")
    plan = await asyncio.to_thread(_resent, gateway, delivery_id)
    for refused in plan.refused:
        endpoint = refused.kept.endpoint
        raise InvalidRequestError(
            f"{endpoint} is disabled; `tallystream deliveries endpoints --enable {endpoint}` has it tried again",
            field="delivery",
        )
    await _seen(gateway.store, delivery_id, len(known) + len(plan.sendable))
    return went(request, f"{path_of(known[-1].request_id)}#deliveries")


def _resent(gateway: Gateway, delivery_id: str) -> Plan:
    """Blocks: it reads all of deliveries, and waits for other commands to be over."""
    selection = Selection(frozenset((delivery_id,)), DeliveryState.FAILED)
    return Resend(gateway.settings, gateway.codec, now_ms).apply(selection, None, lambda sent: None)


async def _seen(store: Store, delivery_id: str, records: int) -> None:
    for _ in range(_LOOKS):
        if len(await store.attempts(delivery_id)) >= records:
            return
        await asyncio.sleep(_LOOK)
