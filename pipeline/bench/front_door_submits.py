"""Tasks a second that one gateway accepts, beside the same application with no Kafka behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from pipeline.admin import create_topics
from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure, percentile
from pipeline.bench.front_door_gateway import bench_gateway
from pipeline.bench.http_client import Connection, pace, post, saturate
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.running_pipeline import APP
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings

_CONNECTIONS = 64
_LEAST_SHARE = 0.5
_BODY = json.dumps({"prompt": "How many legs does a spider have? Answer with the number only."}).encode()


def submits(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """One process each, the contenders in turn; the client runs beside them on the same cores."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    latencies: list[float] = []
    with LocalBroker(settings.home) as broker:
        settings = settings.model_copy(update={"bootstrap": broker.bootstrap, "app": APP, "registry_url": ""})
        create_topics(settings)
        for repeat in range(effort.repeats):
            for kafka in (True, False):
                with bench_gateway(settings, bare=not kafka) as gateway:
                    rate, delays = asyncio.run(_measure(gateway.url.port or 0, effort, steady=kafka))
                rates[kafka].append(rate)
                latencies += [percentile(delays, 0.99)] if delays else []
            say(f"submits: {repeat + 1} of {effort.repeats} rounds")
    yield Row("front door: tasks accepted by one gateway", figure(rates[True]), "/s")
    yield Row("front door: the same with no Kafka behind it", figure(rates[False]), "/s")
    shares = [real / bare for real, bare in zip(rates[True], rates[False], strict=True)]
    yield Row("front door: share of that", figure(shares), "×", Goal(Bound.AT_LEAST, _LEAST_SHARE))
    yield Row(
        "front door: acceptance at half that rate, p99", figure([1000 * each for each in latencies]), "ms"
    )


async def _measure(port: int, effort: Effort, *, steady: bool) -> tuple[float, list[float]]:
    """The rate when saturated, and latencies at half of it."""
    connections = [Connection(port, post("/v1/tasks", _BODY)) for _ in range(_CONNECTIONS)]
    for each in connections:
        await each.open()
    await saturate(connections, effort.warm)
    rate = await saturate(connections, effort.saturated)
    delays = await pace(connections, rate / 2, effort.steady) if steady else []
    for each in connections:
        each.close()
    return rate, delays
