"""What open listeners cost a gateway, and how late they hear of an event."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence

from pipeline.admin import create_topics
from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure, percentile
from pipeline.bench.front_door_gateway import BenchGateway, bench_gateway
from pipeline.bench.parts import Say
from pipeline.bench.question import text_of
from pipeline.bench.rows import Row
from pipeline.bench.running_pipeline import APP
from pipeline.child_process import resident_bytes
from pipeline.errors import DependencyDownError
from pipeline.http_client import HttpClient, Remote
from pipeline.kafka.connect import make_codec
from pipeline.kafka.local_broker import LocalBroker
from pipeline.kafka.progress import ProgressWriter
from pipeline.settings import Settings
from pipeline.telemetry import now_ms

_RATE = 2.0
"""Events a second of the one task that all listen to, so that each is written to all of them at once."""
_PATIENCE = 60.0
_NUMBER = re.compile(rb'"text":"(\d+) "')
_BEGUN = b"event: state"


class _Listener(asyncio.Protocol):
    """One connection, which costs its process as little as it can."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.begun = False
        self.heard: dict[int, float] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.begun = self.begun or _BEGUN in data
        for number in _NUMBER.findall(data):
            self.heard[int(number)] = now


def listeners(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """All listen to one task; the reader runs beside the gateway on the same cores, and is a part of the delay."""
    alone: list[float] = []
    together: list[float] = []
    bytes_each: list[float] = []
    with LocalBroker(settings.home) as broker:
        settings = settings.model_copy(update={"bootstrap": broker.bootstrap, "app": APP, "registry_url": ""})
        create_topics(settings)
        for repeat in range(effort.repeats):
            with bench_gateway(settings) as gateway:
                with HttpClient(Remote(str(gateway.url))) as client:
                    request_id = client.submit({"prompt": text_of("")}, str(uuid.uuid4()))["id"]
                one, all_of_them, held = asyncio.run(_measure(settings, gateway, request_id, effort))
            alone.append(1000 * percentile(one, 0.99))
            together.append(1000 * percentile(all_of_them, 0.99))
            bytes_each.append(held / 1024)
            say(f"listeners: {repeat + 1} of {effort.repeats} rounds")
    count = f"{effort.listeners:,}"
    yield Row(f"front door: memory of one of {count} listeners", figure(bytes_each), "KiB")
    yield Row("front door: a token's record → its only listener, p99", figure(alone), "ms")
    yield Row(f"front door: a token's record → each of {count} listeners, p99", figure(together), "ms")


async def _measure(
    settings: Settings, gateway: BenchGateway, request_id: str, effort: Effort
) -> tuple[Sequence[float], Sequence[float], float]:
    """Delays in seconds of one listener, those of all, and bytes that each of them holds."""
    first = await _open(gateway, request_id, 1)
    one = await _tell(settings, request_id, first, effort.steady)
    before = resident_bytes(gateway.pid)
    others = await _open(gateway, request_id, effort.listeners)
    held = (resident_bytes(gateway.pid) - before) / effort.listeners
    return one, await _tell(settings, request_id, others, effort.steady), held


async def _open(gateway: BenchGateway, request_id: str, count: int) -> list[_Listener]:
    loop, url = asyncio.get_running_loop(), gateway.url
    assert url.host is not None and url.port is not None
    request = f"GET /v1/tasks/{request_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    found: list[_Listener] = []
    for _ in range(count):
        _, listener = await loop.create_connection(lambda: _Listener(request), url.host, url.port)
        found.append(listener)
    await _until(lambda: all(listener.begun for listener in found), "the listeners")
    return found


async def _tell(
    settings: Settings, request_id: str, heard_by: Sequence[_Listener], seconds: float
) -> Sequence[float]:
    """Write tokens of the task steadily; by how much later, in seconds, each listener has each of them."""
    writer = ProgressWriter(settings, make_codec(settings))
    written: dict[int, float] = {}
    for number in range(max(1, round(_RATE * seconds))):
        written[number] = time.monotonic()
        writer.tokens(request_id, 0, number % 2, f"{number} ", now_ms())
        await asyncio.sleep(1 / _RATE)
    await _until(lambda: all(len(listener.heard) >= len(written) for listener in heard_by), "the last token")
    return [listener.heard[number] - at for listener in heard_by for number, at in written.items()]


async def _until(done: Callable[[], bool], what: str) -> None:
    """
    Raises:
        DependencyDownError: it has not come about for a minute.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            while not done():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise DependencyDownError(f"still waiting for {what} after {_PATIENCE:.0f} s") from None
