"""What every handler of the gateway works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from pipeline.errors import GoneError, NotFoundError
from pipeline.gateway.key_file import KeyRing
from pipeline.gateway.keys import Principal
from pipeline.gateway.limits import Buckets
from pipeline.kafka.codec import Codec
from pipeline.settings import Settings

if TYPE_CHECKING:  # names only: what they are made of needs this module
    from pipeline.gateway.intake import Intake
    from pipeline.gateway.submissions import Submissions
    from pipeline.live.hub import Hub
    from pipeline.store.store import Store
    from pipeline.store.tasks import Task


@dataclass(frozen=True, slots=True)
class Gateway:
    """One running gateway."""

    settings: Settings
    codec: Codec
    store: Store
    hub: Hub
    intake: Intake
    keys: KeyRing
    submissions: Submissions
    buckets: Buckets


GATEWAY = web.AppKey("gateway", Gateway)
PRINCIPAL = web.RequestKey("principal", Principal)


def gateway_of(request: web.Request) -> Gateway:
    return request.config_dict[GATEWAY]


def principal_of(request: web.Request) -> Principal:
    """Who asks; of a route that anybody may call there is nobody to name."""
    return request[PRINCIPAL]


async def visible_task(request: web.Request, request_id: str) -> Task:
    """A task that who asks may see. That it is somebody else's is not told apart from that there is none.

    Raises:
        NotFoundError: there is none.
        GoneError: its result is not kept any more.
    """
    task = await gateway_of(request).store.fresh_task(request_id)
    principal = principal_of(request)
    if task is None or not (principal.admin or task.request.tenant == principal.tenant):
        raise NotFoundError("there is no such task")
    if task.gone:
        raise GoneError("this task has ended, and its result is not kept any more")
    return task
