"""The gateway's application with nothing behind it: an intake that acknowledges at once, and an empty view."""

from __future__ import annotations

import asyncio
import signal
from typing import Any, cast

from pipeline.gateway.app import build_app
from pipeline.gateway.context import Gateway
from pipeline.gateway.intake import Accepted
from pipeline.gateway.key_file import KeyRing, keys_path
from pipeline.gateway.limits import Buckets
from pipeline.gateway.server import served
from pipeline.gateway.submissions import Submissions
from pipeline.health_server import noted
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Output
from pipeline.live.hub import Hub
from pipeline.settings import load_settings
from pipeline.store.rows import Stored
from pipeline.store.tasks import Load
from pipeline.telemetry import now_ms


class _EmptyView:
    problem: str | None = None

    def load(self) -> Load:
        return Load(())

    async def caught_up(self) -> bool:
        return True


class _NoKafka:
    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.submissions: Submissions | None = None

    async def write(self, record: Output) -> Accepted:
        assert record.value is not None and self.submissions is not None
        stored = Stored(record.topic, record.partition, 0, 0, self._codec.decode(record.value))
        asyncio.get_running_loop().call_soon(self.submissions.seen, [stored])
        return Accepted(record.topic, record.partition, 0, 0)


async def serve() -> None:
    settings, codec = load_settings(), Codec()
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    store, intake = cast("Any", _EmptyView()), _NoKafka(codec)
    submissions = intake.submissions = Submissions(settings, codec, store, cast("Any", intake), now_ms)
    hub = Hub(loop, listener_queue=1)
    keys = KeyRing(keys_path(settings))
    gateway = Gateway(settings, codec, store, hub, cast("Any", intake), keys, submissions, Buckets())
    async with served(build_app(gateway), settings) as url:
        with noted(settings, "gateway", f"{url}/healthz"):
            await asked.wait()


if __name__ == "__main__":
    asyncio.run(serve())
