"""A whole pipeline on the session's Kafka: real agents as processes, the scripted engine, two shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pipeline.admin import create_topics
from pipeline.commands.demo_receiver import Receiver
from pipeline.settings import Settings, load_settings
from pipeline.stack import AGENTS, agent_specs
from pipeline.supervisor import RestartPolicy, Supervisor
from tests.integration.asker import Asker


@dataclass(frozen=True, slots=True)
class Running:
    """The pipeline of this session."""

    settings: Settings
    supervisor: Supervisor
    receiver: Receiver


@pytest.fixture(scope="session")
def running(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = load_settings(bootstrap=bootstrap, app="it", shards=2)
    create_topics(settings)
    scripted = {
        "TALLYSTREAM_ENGINE__NAME": "scripted",
        "TALLYSTREAM_ENGINE__SCRIPT": '{"min_ms": 1, "max_ms": 40}',
        "TALLYSTREAM_SESSION_TIMEOUT_MS": "6000",
    }
    with Receiver() as receiver:
        specs = agent_specs(settings, AGENTS, scripted | receiver.agent_environment())
        folder = tmp_path_factory.mktemp("agents")
        patient = RestartPolicy(first_delay=0.2, factor=1.0, give_up_after=1_000)
        with Supervisor(specs, print, folder=folder, policy=patient) as supervisor:
            yield Running(settings, supervisor, receiver)


@pytest.fixture
def asker(running: Running) -> Iterator[Asker]:
    """Asks, and follows every topic from the test's start on."""
    with Asker(running.settings) as asker:
        yield asker
