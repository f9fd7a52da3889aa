"""``/tasks``: a list that updates itself, its filters and its pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web

from agents.web import words
from agents.web.templating import page
from agents.web.views import row_of
from pipeline.events import Status
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.scheduling.states import ENDS
from pipeline.store.tasks import TaskFilter
from pipeline.telemetry import now_ms

_ON_A_PAGE = 30
_OPEN = "open"
_SPANS = {"": "any time", "3600": "last hour", "86400": "last day"}
_STATES = {_OPEN: "not ended", **{status.value: words.state_word(status) for status in Status}}


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The filters as the form has them; what it does not offer counts as nothing."""

    status: str = ""
    within: str = ""
    tenant: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListFilter:
        status, within = query.get("status", ""), query.get("within", "")
        return cls(
            status if status in _STATES else "", within if within in _SPANS else "", query.get("tenant", "")
        )

    def wanted(self, tenant: str | None, now: int) -> TaskFilter:
        """Args: ``tenant``: the only one who asks may see; ``None``: all. ``now``: ms."""
        if self.status == _OPEN:
            statuses = tuple(status for status in Status if status not in ENDS)
        else:
            statuses = (Status(self.status),) if self.status else ()
        return TaskFilter(
            tenant=tenant or self.tenant or None,
            statuses=statuses,
            since=now - 1000 * int(self.within) if self.within else None,
        )

    def link(self, cursor: str = "") -> str:
        """The list with these filters, from this place on."""
        given = {"status": self.status, "within": self.within, "tenant": self.tenant, "after": cursor}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/tasks?{query}" if query else "/tasks"


async def tasks(request: web.Request) -> web.Response:
    chosen, after = ListFilter.of(request.query), request.query.get("after", "")
    wanted = chosen.wanted(tenant_seen(request), now_ms())
    found = await gateway_of(request).store.tasks(wanted, after=after or None, limit=_ON_A_PAGE)
    return page(
        request,
        "tasks.html",
        filter=chosen,
        filtered=chosen != ListFilter(),
        states=_STATES.items(),
        spans=_SPANS.items(),
        rows=[row_of(task) for task in found.tasks],
        poll="" if after else chosen.link(),
        newest=chosen.link() if after else "",
        older=chosen.link(found.cursor) if found.cursor else "",
    )


def tenant_seen(request: web.Request) -> str | None:
    """The tenant whose tasks who asks may see; ``None``: everybody's."""
    principal = principal_of(request)
    return None if principal.admin else principal.tenant
