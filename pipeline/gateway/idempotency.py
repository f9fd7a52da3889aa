"""An Idempotency-Key names its task: the task's id is made of the key, so every gateway finds it without a store.

See docs/adr/0051-idempotency-keys-name-the-task.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import blake2b
from weakref import WeakValueDictionary

from aiohttp import web

from pipeline.errors import GoneError, IdempotencyError, MalformedError
from pipeline.events import InferenceRequest
from pipeline.scheduling.content import content_of
from pipeline.store.tasks import Task

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")
_BYTES = 16


def idempotency_key(request: web.Request) -> str | None:
    """The key that came with a call.

    Raises:
        MalformedError: it is none, or there are several.
    """
    keys = request.headers.getall(HEADER, [])
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise MalformedError(
            "an Idempotency-Key is one text of 1 to 255 printable ASCII characters", field=HEADER
        )
    return keys[0]


def keyed_id(tenant: str, key: str, turn: int) -> str:
    """The id of the task that a key of a tenant names.

    Args:
        turn: how many tasks it has named before, and names no more.
    """
    text = f"{tenant}\0{key}\0{turn}"
    return f"key-{blake2b(text.encode(), digest_size=_BYTES).hexdigest()}"


def check_same(task: Task, request: InferenceRequest) -> None:
    """Refuse a body that is not the one with which the key came first.

    Raises:
        GoneError: that body is not kept any more.
        IdempotencyError: it asks something else.
    """
    if task.gone:
        raise GoneError("the task of this Idempotency-Key has ended, and is not kept any more", field=HEADER)
    if content_of(task.request) != content_of(request):
        raise IdempotencyError("this Idempotency-Key came with another body before", field=HEADER)


class Turns:
    """One at a time for each name; names that nobody uses cost nothing."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, name: str) -> AsyncGenerator[None]:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        async with lock:
            yield
