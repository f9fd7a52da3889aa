"""A gateway as a process of its own, to be measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from yarl import URL

from pipeline.errors import DependencyDownError
from pipeline.health_server import read_agents
from pipeline.settings import Settings
from pipeline.stack import GATEWAY, agent_specs
from pipeline.supervisor import Supervisor

_PATIENCE = 120.0
_ENDLESS = {"TALLYSTREAM_GATEWAY__BACKLOG_LIMIT": "1000000000", "TALLYSTREAM_GATEWAY__PORT": "0"}
"""Nothing answers the tasks, and none is refused for that."""


@dataclass(frozen=True, slots=True)
class BenchGateway:
    url: URL
    pid: int


@contextmanager
def bench_gateway(settings: Settings, *, bare: bool = False) -> Generator[BenchGateway]:
    """A fresh one on the Kafka of the settings; ``bare``: with nothing behind it.

    Raises:
        DependencyDownError: it does not come up.
    """
    with TemporaryDirectory(prefix="tallystream-bench-") as folder:
        settings = settings.model_copy(update={"home": Path(folder)})
        (spec,) = agent_specs(settings, (GATEWAY,), _ENDLESS)
        if bare:
            spec = replace(spec, argv=(sys.executable, "-m", "pipeline.bench.bare_gateway"))
        with Supervisor([spec], lambda _: None, folder=Path(folder) / "logs"):
            yield _found(settings)


def _found(settings: Settings) -> BenchGateway:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        for agent in read_agents(settings):
            if agent.body:
                return BenchGateway(URL(agent.url).origin(), agent.body["pid"])
        time.sleep(0.1)
    raise DependencyDownError(f"no gateway after {_PATIENCE:.0f} s")
