"""The containers as they are shipped, with a real model: each is killed while tasks run, and nothing is lost or twice.

It takes an engine that answers, some 10 GB and minutes, so it is asked for: ``make containers``.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline.events import Status
from tests.containers.composed import AGENTS, SERVICES, Composed, compose_command, composed
from tests.eventually import eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.model,
    pytest.mark.skipif(
        "TALLYSTREAM_TEST_CONTAINERS" not in os.environ, reason="asked for by make containers"
    ),
]

_LONG = 900
_AT_ONCE = 3


@pytest.fixture(scope="module")
def project() -> Iterator[Composed]:
    assert compose_command(), "no container engine answers, or there is no compose"
    with composed() as project:
        yield project


@pytest.fixture(scope="module")
def client(project: Composed) -> Iterator[httpx.Client]:
    """Of a gateway that is open to others, with the key that it asks for."""
    key = project.run("run", "--rm", "-T", "gateway", "keys", "add", "--tenant", "proof")
    (token,) = [word for word in key.split() if word.startswith("tsk_")]
    project.run("up", "-d", *AGENTS, "receiver")
    for service in SERVICES:
        eventually(lambda service=service: project.healthy(service), _LONG, every=1)
    with httpx.Client(
        base_url=project.gateway, headers={"Authorization": f"Bearer {token}"}, timeout=60
    ) as client:
        yield client


def ask(client: httpx.Client, number: int) -> str:
    """Post a task until it is accepted, however the gateway is killed meanwhile; once, by its Idempotency-Key."""
    body = {
        "prompt": f"What is {number} + 2?",
        "mode": "standard",
        "sampling": {"max_new_tokens": 96, "seed": number},
        "callback": {"url": "http://receiver:8000/hook"},
    }
    answers: list[httpx.Response] = []

    def accepted() -> bool:
        try:
            answers.append(client.post("/v1/tasks", json=body, headers={"Idempotency-Key": f"task {number}"}))
        except httpx.TransportError:
            return False
        return answers[-1].status_code == 202

    eventually(accepted, _LONG, every=1)
    return str(answers[-1].json()["id"])


def status_of(client: httpx.Client, task: str) -> Status:
    """What the gateway says of a task; while it can say nothing, that it waits."""
    try:
        answer = client.get(f"/v1/tasks/{task}")
    except httpx.TransportError:
        return Status.PENDING
    return Status(answer.json()["status"]) if answer.is_success else Status.PENDING


def voted(client: httpx.Client, task: str) -> bool:
    """Whether its samples ended it, and no deadline; a model as small as this one may not come to an answer."""
    told = client.get(f"/v1/tasks/{task}").json()
    return told["status"] in ("done", "needs_clarification") or told["error"]["code"] == "cut_short"


def results_on_kafka(bootstrap: str) -> Counter[str]:
    """Committed results, by request id."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "proof",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics("results", timeout=60).topics["results"].partitions
    consumer.assign([TopicPartition("results", each, 0) for each in partitions])
    found: Counter[str] = Counter()
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(60)
        assert message is not None, "Kafka has not answered"
        if message.error() is not None:
            ended += 1
        else:
            found[(message.key() or b"").decode()] += 1
    consumer.close()
    return found


def test_every_container_is_killed_and_every_task_is_answered_once(
    project: Composed, client: httpx.Client
) -> None:
    tasks = [ask(client, 0)]
    eventually(lambda: status_of(client, tasks[0]).terminal, _LONG, every=1)
    for service in SERVICES:
        began = [ask(client, len(tasks) + place) for place in range(_AT_ONCE)]
        tasks += began
        project.kill(service)
        eventually(lambda service=service: project.healthy(service), _LONG, every=1)
        eventually(
            lambda began=began: all(status_of(client, task).terminal for task in began), _LONG, every=1
        )
    assert all(voted(client, task) for task in tasks)
    eventually(lambda: {each["task"] for each in project.callbacks()} == set(tasks), _LONG, every=1)
    assert results_on_kafka(project.kafka) == dict.fromkeys(tasks, 1)
    ids = {each["id"]: each["task"] for each in project.callbacks()}
    assert sorted(ids.values()) == sorted(tasks)  # what came twice came under the same id


def test_no_container_runs_as_root_or_writes_where_it_should_not(
    project: Composed, client: httpx.Client
) -> None:
    for service in SERVICES:
        container = project.container(service)
        tried = subprocess.run(
            ["docker", "exec", container, "sh", "-c", "id -u; touch /opt/new 2>&1"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        user, said = tried.stdout.splitlines()
        assert int(user) > 0 and "Read-only" in said, service
