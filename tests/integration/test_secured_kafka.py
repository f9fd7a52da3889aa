"""A Kafka with TLS, passwords and permissions: each process of a whole pipeline has what it needs, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import httpx
import pytest
from confluent_kafka import KafkaError, Message

from pipeline.admin import create_topics
from pipeline.commands.demo_receiver import Receiver
from pipeline.errors import BrokerDownError
from pipeline.events import Callback, Delivery, Mode, Session
from pipeline.kafka.acls import OPERATOR, permissions
from pipeline.kafka.clients import plain_producer
from pipeline.kafka.local_broker import choose_broker
from pipeline.settings import Settings, load_settings
from pipeline.stack import ROLES, agent_specs
from pipeline.supervisor import Supervisor
from pipeline.topics import REQUESTS
from tests.e2e.commands import tallystream
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.gateways import ready_gateways
from tests.integration.killed import environment_of
from tests.integration.secured_broker import Secured, password_of, secured_broker

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("authority"), (*ROLES, OPERATOR)) as broker:
        create_topics(load_settings(bootstrap=broker.open, app="closed"))
        broker.allow(permissions("closed"))
        yield broker


def as_user(secured: Secured, user: str, home: Path, password: str | None = None) -> Settings:
    kafka = {
        "security": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": user,
        "password": password or password_of(user),
        "ca_file": secured.authority,
    }
    return load_settings(bootstrap=secured.closed, app="closed", home=home, kafka=kafka)


def variables(settings: Settings) -> dict[str, str]:
    kafka = settings.kafka
    return {
        "TALLYSTREAM_KAFKA__SECURITY": kafka.security,
        "TALLYSTREAM_KAFKA__SASL_MECHANISM": kafka.sasl_mechanism,
        "TALLYSTREAM_KAFKA__USERNAME": kafka.username,
        "TALLYSTREAM_KAFKA__PASSWORD": kafka.password.get_secret_value(),
        "TALLYSTREAM_KAFKA__CA_FILE": str(kafka.ca_file),
    }


@dataclass(frozen=True, slots=True)
class Run:
    """What a whole pipeline did there, and its logs."""

    answers: set[str | None]
    over_http: str
    logs: dict[str, str]


@pytest.fixture(scope="module")
def run(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("home")
    shared = {
        "TALLYSTREAM_ENGINE__NAME": "scripted",
        "TALLYSTREAM_LOG_LEVEL": "debug",
        "TALLYSTREAM_GATEWAY__PORT": "0",
    }
    with Receiver() as receiver:
        specs = [
            spec
            for role in ROLES
            for user in [as_user(secured, role, home)]
            for spec in agent_specs(user, [role], shared | receiver.agent_environment() | variables(user))
        ]
        by_loopback = load_settings(bootstrap=secured.open, app="closed", home=home)
        with Supervisor(specs, print, folder=home / "logs"), Asker(by_loopback) as asker:
            callback = Callback(receiver.url)
            ids = [asker.ask("answers=7", mode=mode, callback=callback) for mode in Mode]
            ids.append(asker.ask("answers=7", session=Session("u", "s")))
            asker.put_bytes(b"no event", 0, b"x")
            finals = asker.finals(ids)
            asker.until(
                lambda: (
                    sum(isinstance(e, Delivery) and e.state == "delivered" for e in asker.of(Delivery))
                    >= len(Mode)
                ),
                "callbacks",
            )
            (url,) = ready_gateways(by_loopback, 1)
            over_http = answer_over_http(url, "answers=8")
    logs = {path.name: path.read_text() for path in (home / "logs").iterdir()}
    return Run({result.answer for result in finals.values()}, over_http, logs)


def answer_over_http(url: str, prompt: str) -> str:
    task = f"{url}{httpx.post(f'{url}/v1/tasks', json={'prompt': prompt}).json()['links']['self']}"
    eventually(lambda: httpx.get(task).json()["status"] == "done")
    return httpx.get(task).json()["answer"]


def test_every_process_has_what_it_needs_and_no_log_has_a_secret(run: Run) -> None:
    assert run.answers == {"7"}
    assert run.over_http == "8"
    assert len(run.logs) == len(ROLES)
    for name, text in run.logs.items():
        assert "canary-" not in text, name
        assert "AUTHORIZATION_FAILED" not in text.upper(), text[-2_000:]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("deliveries resend --state delivered --apply", 0),
        ("replay --from 1d --as-run 1 --apply", 1),  # one of what was asked is no request
        ("dead-letters replay --apply", 0),
        ("revote --from 1d --apply", 0),
        ("offsets show", 0),
        ("offsets reset --agent webhook --to earliest --apply", 0),
    ],
)
@pytest.mark.usefixtures("run")
def test_an_operator_may_run_every_command(secured: Secured, tmp_path: Path, command: str, code: int) -> None:
    done = as_a_command(as_user(secured, OPERATOR, tmp_path), *command.split())
    assert done.returncode == code, done.stdout + done.stderr
    assert "acls" not in done.stderr and "authoriz" not in done.stderr.lower(), done.stderr


@pytest.mark.usefixtures("run")
def test_a_gateway_may_send_callbacks_again_and_is_told_that_it_may_not_replay(
    secured: Secured, tmp_path: Path
) -> None:
    user = as_user(secured, "gateway", tmp_path)
    done = as_a_command(user, "deliveries", "resend", "--state", "delivered", "--apply")
    assert done.returncode == 0, done.stderr
    refused = as_a_command(user, "dead-letters", "replay", "--apply")
    assert refused.returncode not in (0, None) and "tallystream topics acls" in refused.stderr
    assert "Traceback" not in refused.stderr and "another replay" not in refused.stderr


def test_a_process_may_not_do_what_another_may(secured: Secured, tmp_path: Path) -> None:
    producer = plain_producer(as_user(secured, "webhook", tmp_path))
    refused: list[KafkaError | None] = []

    def told(error: KafkaError | None, _: Message) -> None:
        refused.append(error)

    producer.produce(REQUESTS, b"x", b"x", 0, on_delivery=told)
    producer.flush(30)
    assert [error.code() for error in refused if error] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"password": "wrong"}, "Authentication failed"),
        ({"ca_file": None}, "certificate verify failed"),
        ({"security": "PLAINTEXT"}, "no Kafka answers"),
    ],
)
def test_who_is_refused_is_told_why(
    secured: Secured, tmp_path: Path, broken: dict[str, object], said: str
) -> None:
    right = as_user(secured, "worker", tmp_path)
    kafka = right.kafka.model_dump() | broken
    settings = load_settings(bootstrap=secured.closed, kafka=kafka)
    with pytest.raises(BrokerDownError, match=said), choose_broker(settings, print):
        pass


def as_a_command(user: Settings, *command: str) -> CompletedProcess[str]:
    """Run one as this user; no secret comes out."""
    done = tallystream(*command, env=environment_of(user) | variables(user))
    assert "canary-" not in done.stdout + done.stderr
    return done
