"""``/deliveries`` and ``/dead-letters``: what belongs to no tenant, and is an admin's."""

from __future__ import annotations

import asyncio

from aiohttp import web

from agents.web.forms import by_htmx, posted, went
from agents.web.templating import page
from agents.web.views import path_of
from pipeline.errors import ForbiddenError, InvalidRequestError
from pipeline.gateway.context import Gateway, gateway_of, principal_of
from pipeline.gateway.openai.batch_told import tells_of_a_batch
from pipeline.replay.letters import LetterPlace, Selection, place_named
from pipeline.replay.resend import Plan, Replay

_NEWEST = 100


async def deliveries(request: web.Request) -> web.Response:
    only_admins(request)
    found = await gateway_of(request).store.recent_deliveries(_NEWEST)
    shown = [(each, None if tells_of_a_batch(each) else path_of(each.request_id)) for each in found]
    return page(request, "deliveries.html", deliveries=shown)


async def dead_letters(request: web.Request) -> web.Response:
    only_admins(request)
    return await _letters(request, "")


async def replay(request: web.Request) -> web.Response:
    """Send one letter again, as ``tallystream dead-letters replay`` does: once, whoever else is at it."""
    only_admins(request)
    place = place_named((await posted(request)).get("letter", ""))
    if place is None:
        raise InvalidRequestError("a letter is named as 0:17", field="letter")
    plan = await asyncio.to_thread(_replayed, gateway_of(request), place)
    if not by_htmx(request):
        return went(request, "/dead-letters")
    return await _letters(request, _told(plan, place))


def _replayed(gateway: Gateway, place: LetterPlace) -> Plan:
    """Blocks: it reads all of dead-letters, and waits for other replays to be over."""
    return Replay(gateway.settings, gateway.codec).apply(
        Selection(places=frozenset({place})), None, lambda plan, sent: None
    )


def _told(plan: Plan, place: LetterPlace) -> str:
    name = f"{place[0]}:{place[1]}"
    if plan.sendable:
        topic, partition = plan.sendable[place]
        return f"{name} was sent again, to {topic}[{partition}]."
    if plan.letters:
        return f"{name} can not be sent again: {plan.letters[0].reason}."
    return f"{name} was sent again before." if plan.replayed else f"There is no letter {name} any more."


async def _letters(request: web.Request, told: str) -> web.Response:
    letters = await gateway_of(request).store.letters(_NEWEST)
    return page(request, "dead_letters.html", letters=letters, told=told)


def only_admins(request: web.Request) -> None:
    if not principal_of(request).admin:
        raise ForbiddenError("this page is for keys of an admin")
