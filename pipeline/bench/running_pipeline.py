"""The pipeline as processes on a Kafka of its own, with the scripted engine that takes no time, and the load on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.admin import create_topics
from pipeline.bench.kafka_answers import KafkaAnswers
from pipeline.bench.load import Load
from pipeline.bench.question import question
from pipeline.bench.role_usage import RoleUsage
from pipeline.bench.variant import VARIANT_ROLES, Variant
from pipeline.client import RequestProducer
from pipeline.events import Callback
from pipeline.kafka.connect import make_codec
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings
from pipeline.stack import AGENTS, agent_specs
from pipeline.supervisor import ProcessSpec, RestartPolicy, Supervisor
from pipeline.topics import RESULTS

APP = "bench"
_SCRIPT = {"rows": 1024}
"""The engine must not be what is measured: all samples of a gathering run at once."""
_AS_A_LONE_CRASH = RestartPolicy(factor=1.0, give_up_after=1_000_000)


@dataclass(frozen=True, slots=True)
class Setup:
    """Which pipeline.

    Attributes:
        name: as the rows call it.
        variant: agents that differ from the shipped ones, for comparison.
        env: further environment of the agents.
        callback: of every request.
        waiting: requests that are there before the agents start.
    """

    name: str = "pipeline"
    shards: int = 1
    variant: Variant | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    callback: Callback | None = None
    waiting: int = 0


class PipelineContender:
    """Sends requests as any client does, reads ``results``."""

    def __init__(self, settings: Settings, setup: Setup) -> None:
        self.name, self._callback = setup.name, setup.callback
        self._producer = RequestProducer(settings, make_codec(settings))
        self._answers = KafkaAnswers(settings, RESULTS, settings.shards)

    def send(self, request_id: str) -> None:
        self._producer.send(question(request_id, self._callback))

    def answered(self, timeout: float) -> Sequence[str]:
        return self._answers.read(timeout)

    def close(self) -> None:
        self._answers.close()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that runs."""

    settings: Settings
    load: Load
    usage: RoleUsage
    supervisor: Supervisor
    broker: LocalBroker


@contextmanager
def running_pipeline(settings: Settings, setup: Setup = Setup()) -> Generator[Pipeline]:
    """Start everything afresh; stop everything, whatever ends the block."""
    with ExitStack() as stack:
        broker = stack.enter_context(LocalBroker(settings.home))
        home = Path(stack.enter_context(TemporaryDirectory(prefix="tallystream-bench-")))
        settings = settings.model_copy(
            update={"bootstrap": broker.bootstrap, "app": APP, "shards": setup.shards, "registry_url": ""}
        )
        create_topics(settings)
        contender = PipelineContender(settings, setup)
        stack.callback(contender.close)
        load = stack.enter_context(Load(contender))
        load.waiting(setup.waiting)
        supervisor = stack.enter_context(
            Supervisor(
                _specs(settings, setup, home),
                lambda _: None,
                folder=home / "logs",
                policy=_AS_A_LONE_CRASH,
            )
        )
        yield Pipeline(settings, load, RoleUsage(supervisor, broker), supervisor, broker)


def _specs(settings: Settings, setup: Setup, home: Path) -> list[ProcessSpec]:
    own = {
        "TALLYSTREAM_ENGINE__NAME": "scripted",
        "TALLYSTREAM_ENGINE__SCRIPT": json.dumps(_SCRIPT),
        "TALLYSTREAM_HOME": str(home),
    }
    specs = agent_specs(settings, AGENTS, {**own, **setup.env})
    if setup.variant is None:
        return specs
    roles, variant = VARIANT_ROLES[setup.variant], setup.variant.value
    return [
        replace(spec, argv=(sys.executable, "-m", "pipeline.bench.variant", variant, spec.argv[-1]))
        if spec.name.partition("-")[0] in roles
        else spec
        for spec in specs
    ]
