"""Gateways as processes beside a pipeline of their own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from pipeline.health_server import read_agents
from pipeline.settings import Settings
from tests.eventually import eventually
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

_ENV = {"TALLYSTREAM_GATEWAY__PORT": "0", "TALLYSTREAM_WEBHOOK__ALLOW_PRIVATE": "true"}
_START = 120


@contextmanager
def pipeline_with_gateways(folder: Path, count: int) -> Generator[tuple[OwnPipeline, list[str]]]:
    """An aggregator, a webhook agent and gateways, and where these are.

    Batcher and worker are the test's to start, so that it can have tasks that wait for as long as it wants.
    """
    with ExitStack() as stack:
        pipeline = stack.enter_context(
            own_pipeline(
                folder, agents=("aggregator", "webhook"), script='{"min_ms": 600, "max_ms": 900}', env=_ENV
            )
        )
        for slot in range(count):
            stack.enter_context(pipeline.agents(["gateway"], slot=slot))

        yield pipeline, ready_gateways(pipeline.settings, count)


def ready_gateways(settings: Settings, count: int) -> list[str]:
    """Where a pipeline's gateways of this machine are, once all of so many are ready."""

    def urls() -> list[str]:
        agents = read_agents(settings)
        return [agent.url.removesuffix("/healthz") for agent in agents if "gateway" in agent.name]

    eventually(lambda: len(urls()) == count, _START)
    for url in urls():
        eventually(lambda url=url: httpx.get(f"{url}/readyz").is_success, _START)
    return urls()
