"""How much later than the worker a client of the gateway has the first token of its task."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Final

from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure
from pipeline.bench.front_door_gateway import bench_gateway
from pipeline.bench.parts import Say
from pipeline.bench.question import text_of
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.running_pipeline import Setup, running_pipeline
from pipeline.client import TopicFollower
from pipeline.errors import DependencyDownError
from pipeline.events import Event, Sample
from pipeline.http_client import HttpClient, Remote
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import SAMPLES

_SAMPLE_MS: Final = 400
"""Of four words, so a model that has its first one after a tenth of a second."""
_PATIENCE = 60.0
_MOST = 1.2


def first_token(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Lone tasks of one sample, each posted and listened to over HTTP; times from when it was posted."""
    script = f'{{"min_ms": {_SAMPLE_MS}, "max_ms": {_SAMPLE_MS}}}'
    client_ms: list[float] = []
    worker_ms: list[float] = []
    with (
        running_pipeline(settings, Setup(env={"TALLYSTREAM_ENGINE__SCRIPT": script})) as pipeline,
        bench_gateway(pipeline.settings) as gateway,
        HttpClient(Remote(str(gateway.url))) as client,
    ):
        pipeline.load.warm_up(effort.warm)
        follower = TopicFollower(pipeline.settings, make_codec(pipeline.settings), [SAMPLES])
        for number in range(effort.lone + 1):
            asked, here, there = _ask(client, follower, text_of(str(number)))
            if number:  # the first one is the gateway's first, too
                client_ms.append(here - asked)
                worker_ms.append(there - asked)
        follower.close()
        say(f"first token: {effort.lone} tasks")
    ratios = [here / there for here, there in zip(client_ms, worker_ms, strict=True)]
    yield Row("front door: posted → first token at the worker", figure(worker_ms), "ms")
    yield Row("front door: posted → first token at the client", figure(client_ms), "ms")
    yield Row(
        "front door: first token at the client ÷ at the worker",
        figure(ratios),
        "×",
        Goal(Bound.AT_MOST, _MOST),
    )


def _ask(client: HttpClient, follower: TopicFollower, prompt: str) -> tuple[int, int, int]:
    """When a task was posted, and when its first token was at the client and at the worker, in ms."""
    asked = now_ms()
    request_id = client.submit({"prompt": prompt, "mode": "fast"}, str(uuid.uuid4()))["id"]
    here: int | None = None
    for event in client.events(request_id):
        if event.name == "tokens" and here is None:
            here = now_ms()
    there: list[int] = []

    def seen(_: str, event: Event) -> bool:
        if isinstance(event, Sample) and event.request_id == request_id:
            there.append(event.timings.first_token_at or 0)
        return bool(there)

    if here is None or not follower.until(seen, deadline=time.monotonic() + _PATIENCE):
        raise DependencyDownError("a task had no token, or no sample")
    return asked, here, there[0]
