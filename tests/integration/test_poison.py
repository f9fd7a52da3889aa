"""A record that kills its process is parked after the third death, untouched, and its neighbours are served.

On a broker of its own: topics have no prefix, and what is written here kills.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pipeline.admin import create_topics
from pipeline.commands.demo_receiver import Receiver
from pipeline.events import Callback, InferenceRequest, Mode, Result, Sample, Status
from pipeline.ids import new_request_id
from pipeline.kafka.dead_letters import PREFIX, Source
from pipeline.kafka.local_broker import LocalBroker
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings, load_settings
from pipeline.stack import AGENTS, agent_specs
from pipeline.supervisor import Exit, ProcessSpec, RestartPolicy, Supervisor
from pipeline.telemetry import now_ms
from pipeline.topics import LANES, REQUESTS, RESULTS, SAMPLES, request_partition
from tests.integration.asker import Asker
from tests.integration.poisoned_agent import marker

pytestmark = pytest.mark.integration

_NEIGHBOURS = 6
_PRIORITY = 2
_INPUT = {"batcher": REQUESTS, "worker": LANES[_PRIORITY], "aggregator": SAMPLES, "webhook": RESULTS}


@dataclass(frozen=True, slots=True)
class Mortal:
    """A pipeline whose processes die of what they read."""

    settings: Settings
    receiver: Receiver
    exits: list[Exit]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, say) -> Iterator[Mortal]:
    folder = tmp_path_factory.mktemp("mortal")
    with LocalBroker(load_settings().home, say=say) as broker, Receiver() as receiver:
        settings = load_settings(bootstrap=broker.bootstrap, app="poison", home=folder)
        create_topics(settings)
        environment = {
            "TALLYSTREAM_ENGINE__NAME": "scripted",
            "TALLYSTREAM_ENGINE__SCRIPT": '{"min_ms": 1, "max_ms": 20}',
            "TALLYSTREAM_SESSION_TIMEOUT_MS": "6000",
            "TALLYSTREAM_BATCHING__MAX_WAIT_MS": "1000",
            **receiver.agent_environment(),
        }
        exits: list[Exit] = []
        patient = RestartPolicy(first_delay=0.2, factor=1.0, give_up_after=1_000)
        specs = [_poisoned(spec) for spec in agent_specs(settings, AGENTS, environment)]
        with Supervisor(specs, say, folder=folder, policy=patient, on_exit=exits.append):
            yield Mortal(settings, receiver, exits)


def _poisoned(spec: ProcessSpec) -> ProcessSpec:
    agent = spec.name.partition("-")[0]
    return replace(spec, argv=(sys.executable, "-m", "tests.integration.poisoned_agent", agent))


@pytest.fixture
def asker(mortal: Mortal) -> Iterator[Asker]:
    with Asker(mortal.settings) as asker:
        yield asker


_DEADLY = {
    "batcher": marker("batcher"),
    "worker": "crash=always",
    "aggregator": f"answers={marker('aggregator')}",
    "webhook": f"answers={marker('webhook')}",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_poison_is_parked_after_three_deaths_and_its_neighbours_are_served(
    asker: Asker, mortal: Mortal, agent: str
) -> None:
    warm = asker.ask("answers=1")
    asker.finals([warm])
    before = len(mortal.exits)
    callback = Callback(mortal.receiver.url)
    requests = [
        InferenceRequest(
            new_request_id(now_ms()), "answers=7", mode=Mode.STANDARD, priority=_PRIORITY, callback=callback
        )
        for _ in range(2 * _NEIGHBOURS + 1)
    ]
    poison = replace(requests[_NEIGHBOURS], prompt=_DEADLY[agent], mode=Mode.FAST)
    requests[_NEIGHBOURS] = poison
    for request in requests:
        place = request_partition(request.request_id, request.priority, asker.settings.shards)
        asker.put_bytes(
            asker.codec.encode(request), place, request.request_id.encode(), [("traceparent", b"00-abc")]
        )
    letter = _parked(asker)
    neighbours = [request.request_id for request in requests if request is not poison]
    finals = asker.finals([*neighbours, asker.ask("answers=1", priority=_PRIORITY)])
    assert {result.status for result in finals.values()} == {Status.DONE}
    assert {finals[request_id].answer for request_id in neighbours} == {"7"}

    died = mortal.exits[before:]
    assert [(ended.name, ended.status) for ended in died] == [(f"{agent}-0", -signal.SIGKILL)] * 3
    cause = _cause(letter)
    assert (cause["code"], cause["stage"], cause["attempts"]) == ("poison_record", agent, "3")
    assert cause["topic"] == _INPUT[agent]
    original = _original(mortal.settings, cause)
    assert (letter.key, letter.value) == (original.key, original.value)
    assert letter.headers[: len(original.headers)] == original.headers
    assert _holds(asker, letter, poison, agent)
    if agent == "worker":
        failed = asker.finals([poison.request_id])[poison.request_id]
        assert failed.status is Status.FAILED
        assert failed.error is not None and failed.error.code == "poison_record"
    assert max(Counter((r.request_id, r.revision) for r in asker.of(Result)).values()) == 1
    assert max(Counter((s.request_id, s.sample_index) for s in asker.of(Sample)).values()) == 1
    assert len(asker.dead) == 1
    asker.until(
        lambda: all(mortal.receiver.verified(request_id, "done") for request_id in neighbours), "callbacks"
    )


def _parked(asker: Asker) -> Source:
    asker.until(lambda: bool(asker.dead), "a dead letter")
    return asker.dead[0]


def _cause(letter: Source) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX): (value or b"").decode()
        for name, value in letter.headers
        if name.startswith(PREFIX)
    }


def _original(settings: Settings, cause: dict[str, str]) -> Source:
    place = cause["topic"], int(cause["partition"])
    records = map(Source.of, read_back(settings, [place]))
    return next(record for record in records if record.offset == int(cause["offset"]))


def _holds(asker: Asker, letter: Source, poison: InferenceRequest, agent: str) -> bool:
    event = asker.codec.decode(letter.value or b"")
    if agent == "worker":
        return poison.request_id in {group.request_id for group in event.groups}
    return event.request_id == poison.request_id
