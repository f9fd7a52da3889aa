"""A whole pipeline on a Kafka of its own, for tests that take its members or its brokers away."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.admin import create_topics
from pipeline.commands.demo_receiver import Receiver
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings, load_settings
from pipeline.stack import AGENTS, agent_specs
from pipeline.supervisor import Exit, RestartPolicy, Supervisor

_FOR_EVER = RestartPolicy(first_delay=0.2, factor=1.0, give_up_after=1_000)
_ONCE = RestartPolicy(give_up_after=1)
_SHORT = {"TALLYSTREAM_SESSION_TIMEOUT_MS": "2000"}


@dataclass(frozen=True, slots=True)
class OwnPipeline:
    """What runs.

    Attributes:
        exits: every end of an agent that the test did not ask a supervisor for.
    """

    broker: LocalBroker
    settings: Settings
    receiver: Receiver
    folder: Path
    env: dict[str, str]
    exits: list[Exit] = field(default_factory=list[Exit])

    @contextmanager
    def agents(
        self, names: Sequence[str], *, slot: int = 0, once: bool = False, **env: str
    ) -> Generator[Supervisor]:
        """Run these agents while the block lasts; ``once``: what ends is not started again."""
        specs = agent_specs(self.settings, names, self.env | env)
        if slot:
            own = {"TALLYSTREAM_SLOT": str(slot)}
            specs = [
                type(spec)(f"{name}-{slot}", spec.argv, {**spec.env, **own})
                for name, spec in zip(names, specs, strict=True)
            ]
        policy = _ONCE if once else _FOR_EVER
        with Supervisor(specs, print, folder=self.folder, policy=policy, on_exit=self.exits.append) as agents:
            yield agents

    def logs(self, agent: str) -> str:
        """All that the processes of a role have said."""
        return "\n".join(
            log.read_text(errors="replace") for log in sorted(self.folder.glob(f"{agent}-*.log"))
        )


@contextmanager
def own_pipeline(
    folder: Path,
    *,
    nodes: int = 1,
    agents: Sequence[str] = AGENTS,
    script: str = '{"min_ms": 1, "max_ms": 40}',
    env: dict[str, str] | None = None,
    **overrides: Any,
) -> Generator[OwnPipeline]:
    """Start a Kafka of so many nodes, the topics, a webhook receiver and these agents."""
    scripted = {"TALLYSTREAM_ENGINE__NAME": "scripted", "TALLYSTREAM_ENGINE__SCRIPT": script}
    with ExitStack() as stack:
        broker = stack.enter_context(LocalBroker(load_settings().home, nodes=nodes))
        overrides = {"app": "own", "replication": nodes, "home": folder / "home"} | overrides
        settings = load_settings(bootstrap=broker.bootstrap, **overrides)
        create_topics(settings)
        receiver = stack.enter_context(Receiver())
        session = {} if nodes > 1 else _SHORT  # brokers that take each other's place need longer than that
        environment = scripted | session | receiver.agent_environment() | (env or {})
        pipeline = OwnPipeline(broker, settings, receiver, folder, environment)
        stack.enter_context(pipeline.agents(agents))
        yield pipeline
