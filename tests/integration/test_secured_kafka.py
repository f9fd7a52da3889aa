"""A Kafka with TLS, passwords and permissions: each process of a whole pipeline has what it needs, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from pipeline.admin import create_topics
from pipeline.commands.demo_receiver import Receiver
from pipeline.errors import BrokerDownError
from pipeline.events import Callback, Delivery, Mode, Session
from pipeline.kafka.acls import permissions
from pipeline.kafka.clients import plain_producer
from pipeline.kafka.local_broker import choose_broker
from pipeline.settings import Settings, load_settings
from pipeline.stack import AGENTS, agent_specs
from pipeline.supervisor import Supervisor
from pipeline.topics import REQUESTS
from tests.e2e.commands import tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of
from tests.integration.secured_broker import Secured, password_of, secured_broker

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("authority"), AGENTS) as broker:
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


def test_every_process_has_what_it_needs_and_no_log_has_a_secret(secured: Secured, tmp_path: Path) -> None:
    scripted = {"TALLYSTREAM_ENGINE__NAME": "scripted", "TALLYSTREAM_LOG_LEVEL": "debug"}
    logs = tmp_path / "logs"
    with Receiver() as receiver:
        specs = [
            spec
            for role in AGENTS
            for user in [as_user(secured, role, tmp_path)]
            for spec in agent_specs(user, [role], scripted | receiver.agent_environment() | variables(user))
        ]
        by_loopback = load_settings(bootstrap=secured.open, app="closed", home=tmp_path)
        with Supervisor(specs, print, folder=logs), Asker(by_loopback) as asker:
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
    assert {result.answer for result in finals.values()} == {"7"}
    told = {path.name: path.read_text() for path in logs.iterdir()}
    assert len(told) == len(AGENTS)
    for name, text in told.items():
        assert "canary-" not in text, name
        assert "AUTHORIZATION_FAILED" not in text.upper(), text[-2_000:]


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


def test_a_command_speaks_to_it_too(secured: Secured, tmp_path: Path) -> None:
    settings = as_user(secured, "worker", tmp_path)
    shown = tallystream(
        "offsets", "show", "--agent", "worker", env=environment_of(settings) | variables(settings)
    )
    assert (shown.returncode, "canary-" in shown.stdout + shown.stderr) in ((0, False), (1, False)), (
        shown.stderr
    )
