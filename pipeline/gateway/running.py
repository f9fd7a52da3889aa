"""A gateway with all its parts, for as long as a block runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from pipeline.gateway.access import check_binding
from pipeline.gateway.context import Gateway
from pipeline.gateway.intake import Intake
from pipeline.gateway.key_file import KeyRing, keys_path
from pipeline.gateway.limits import Buckets
from pipeline.gateway.submissions import Submissions
from pipeline.kafka.codec import Codec
from pipeline.live.hub import Hub
from pipeline.live.progress_follower import ProgressFollower
from pipeline.settings import Settings
from pipeline.store.rows import Stored
from pipeline.store.store import Store
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS

log = structlog.get_logger(__name__)


@asynccontextmanager
async def running_gateway(settings: Settings, codec: Codec) -> AsyncGenerator[Gateway]:
    """Follow the topics and be ready to write.

    Raises:
        ConfigError: the keys can not be read, it would be open to a network, or the view's folder can not be used.
    """
    keys = KeyRing(keys_path(settings))
    check_binding(settings, keys=not keys.open)
    if keys.open:
        log.warning("no API key is needed: there is none, and only this machine can call (demo mode)")
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        intake = await stack.enter_async_context(Intake(settings))
        store = Store(settings, codec, view_folder(settings))
        hub = Hub(loop, listener_queue=settings.gateway.listener_queue)
        stack.callback(hub.close)
        submissions = Submissions(settings, codec, store, intake, now_ms)

        def shown(stored: Sequence[Stored]) -> None:
            """On the view's thread."""
            if asked := [each for each in stored if each.topic == REQUESTS]:
                loop.call_soon_threadsafe(submissions.seen, asked)

        store.listen(shown)
        store.listen(hub.stored)
        await stack.enter_async_context(store)
        stack.enter_context(ProgressFollower(settings, codec, hub))
        yield Gateway(settings, codec, store, hub, intake, keys, submissions, Buckets())


def view_folder(settings: Settings) -> Path:
    return settings.gateway.folder or settings.home / f"gateway-{settings.slot}"
