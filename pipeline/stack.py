"""The whole pipeline on one machine: broker, topics, and the agents under a supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.admin import create_topics
from pipeline.kafka.local_broker import choose_broker
from pipeline.running import announced
from pipeline.settings import Settings
from pipeline.supervisor import ProcessSpec, Supervisor

AGENTS = ("batcher", "worker", "aggregator", "webhook")
"""What answers requests; the gateway asks like everybody else, and nothing waits for it."""
GATEWAY = "gateway"
ROLES = (*AGENTS, GATEWAY)
_ROOT = Path(__file__).resolve().parents[1]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stack:
    """A pipeline that runs."""

    settings: Settings
    supervisor: Supervisor


@contextmanager
def running_stack(
    settings: Settings, say: Say, *, agents: Sequence[str] = AGENTS, env: dict[str, str] | None = None
) -> Generator[Stack]:
    """Start everything; stop everything, whatever ends the block.

    Args:
        env: further environment of the agents.

    Raises:
        MissingDependencyError: a program is not installed; says which.
        BrokerDownError: Kafka does not start or can not be reached.
    """
    with ExitStack() as stack:
        bootstrap = stack.enter_context(choose_broker(settings, say))
        settings = settings.model_copy(update={"bootstrap": bootstrap})
        report = create_topics(settings)
        say(f"topics: {len(report.created)} created, {len(report.present)} present")
        for difference in report.differences:
            say(f"topic differs from its declaration: {difference}")
        supervisor = stack.enter_context(Supervisor(agent_specs(settings, agents, env or {}), say))
        stack.enter_context(announced(settings))
        yield Stack(settings, supervisor)


def agent_specs(settings: Settings, agents: Sequence[str], env: dict[str, str]) -> list[ProcessSpec]:
    """The processes of these agents; the same role twice gets two slots."""
    seen: dict[str, int] = {}
    specs: list[ProcessSpec] = []
    for agent in agents:
        slot = seen[agent] = seen.get(agent, -1) + 1
        specs.append(
            ProcessSpec(
                name=f"{agent}-{slot}",
                argv=(sys.executable, "-m", f"agents.{agent}"),
                env={**environment(settings), **env, "TALLYSTREAM_SLOT": str(slot)},
            )
        )
    return specs


def environment(settings: Settings) -> dict[str, str]:
    """What the agents need to know beyond this process's own environment."""
    path = os.environ.get("PYTHONPATH")
    return {
        "TALLYSTREAM_BOOTSTRAP": settings.bootstrap,
        "TALLYSTREAM_SHARDS": str(settings.shards),
        "TALLYSTREAM_APP": settings.app,
        "TALLYSTREAM_MODEL": settings.model,
        "TALLYSTREAM_HOME": str(settings.home),
        "TALLYSTREAM_REGISTRY_URL": settings.registry_url,
        "PYTHONPATH": f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT),
        "PYTHONUNBUFFERED": "1",
    }
