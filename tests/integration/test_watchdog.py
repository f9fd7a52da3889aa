"""Real agents that stand still, or seem to, on a Kafka of their own: it is killed, and topics have no prefix."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipeline.admin import create_topics
from pipeline.events import Opened
from pipeline.health_server import read_agents
from pipeline.kafka.clients import plain_producer, transactional_producer
from pipeline.kafka.local_broker import LocalBroker
from pipeline.kafka.offset_probe import OffsetProbe
from pipeline.kafka.partition_worker import EXIT_CRASHED
from pipeline.kafka.watchdog import EXIT_STALLED
from pipeline.settings import Settings, load_settings
from pipeline.stack import agent_specs
from pipeline.supervisor import Exit, RestartPolicy, Supervisor
from pipeline.topics import CONTROL
from tests.integration.asker import PATIENCE, Asker

pytestmark = pytest.mark.integration
STALL_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class Bent:
    """A supervised batcher that misbehaves while ``flag`` exists."""

    settings: Settings
    flag: Path
    exits: list[Exit]

    def status(self) -> str:
        return next((str(each.body.get("status")) for each in read_agents(self.settings)), "")

    def until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"still waiting for {what}; exits: {self.exits}"
            time.sleep(0.1)

    def handled(self, asker: Asker, request_id: str) -> None:
        asker.until(
            lambda: any(opened.request_id == request_id for opened in asker.of(Opened)), "a request's marker"
        )


Start = Callable[[str], AbstractContextManager[tuple[Bent, Asker]]]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(load_settings().home, say=print) as broker:
        create_topics(load_settings(bootstrap=broker.bootstrap))
        yield broker


@pytest.fixture
def start(broker: LocalBroker, app_name: str, tmp_path: Path) -> Start:
    @contextmanager
    def bent(bend: str) -> Iterator[tuple[Bent, Asker]]:
        settings = load_settings(bootstrap=broker.bootstrap, app=app_name, home=tmp_path / "home")
        env = {"TALLYSTREAM_WATCHDOG__STALL_AFTER": str(STALL_AFTER)}
        (spec,) = agent_specs(settings, ["batcher"], env)
        flag = tmp_path / "bent"
        spec = replace(
            spec, argv=(sys.executable, "-m", "tests.integration.bent_agent", "batcher", bend, str(flag))
        )
        exits: list[Exit] = []
        quick = RestartPolicy(first_delay=0.1, factor=1.0, give_up_after=1_000)
        with (
            Asker(settings) as asker,
            Supervisor([spec], print, folder=tmp_path / "logs", policy=quick, on_exit=exits.append),
        ):
            agent = Bent(settings, flag, exits)
            agent.until(lambda: agent.status() == "ok", "health")
            agent.handled(asker, asker.ask())
            yield agent, asker

    return bent


@pytest.mark.parametrize(
    ("bend", "code"), [("bug", EXIT_CRASHED), ("deaf", EXIT_STALLED), ("wedged", EXIT_STALLED)]
)
def test_what_stands_still_or_fails_is_started_again_and_loses_nothing(
    start: Start, bend: str, code: int
) -> None:
    with start(bend) as (agent, asker):
        agent.flag.touch()
        asked: list[str] = []

        def ended() -> bool:
            asked.append(asker.ask())  # a fetch that was under way may still take the first
            return bool(agent.exits)

        agent.until(ended, "an exit")
        agent.flag.unlink()
        assert agent.exits[0].status == code
        for request_id in asked:
            agent.handled(asker, request_id)


def test_an_outage_of_kafka_is_no_stall(start: Start, broker: LocalBroker) -> None:
    with start("deaf") as (agent, asker):

        def look() -> dict[str, object]:
            return next((each.body for each in read_agents(agent.settings)), {})

        asked = asker.ask()
        broker.kill()
        try:
            agent.until(lambda: look().get("kafka") == "away", "the outage to be noticed")
            noticed = float(str(look()["uptime_s"]))
            longer = noticed + 2 * STALL_AFTER
            agent.until(lambda: float(str(look().get("uptime_s", 0))) > longer, "a long outage")
        finally:
            broker.start()
        agent.handled(asker, asked)
        assert EXIT_STALLED not in {each.status for each in agent.exits}


def test_markers_of_transactions_are_no_lag(broker: LocalBroker, app_name: str) -> None:
    settings = load_settings(bootstrap=broker.bootstrap, app=app_name)
    here = (CONTROL, 0)
    probe = OffsetProbe(settings, "reader")
    try:
        before = probe.standings([here])[here]
        producer = transactional_producer(settings, f"{app_name}-aborted")
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(CONTROL, b"never", partition=0)
        producer.flush(30)
        producer.abort_transaction(30)
        aborted = before
        while aborted.end == before.end:  # the marker is written after the call has returned
            aborted = probe.standings([here])[here]
        assert aborted.position == aborted.end
        plain = plain_producer(settings)
        plain.produce(CONTROL, b"a record", partition=0)
        plain.flush(30)
        behind = probe.standings([here])[here]
        assert (behind.position, behind.end) == (aborted.end, aborted.end + 1)
        assert probe.standings([here])[here] == behind
    finally:
        probe.close()
