"""The gateway on a real Kafka and a whole pipeline: accepted once and for good, whatever happens to it."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from yarl import URL

from pipeline.child_process import resident_bytes
from pipeline.gateway.key_file import changed_keys
from pipeline.gateway.keys import new_key
from pipeline.health_server import read_agents
from pipeline.kafka.clients import value_of
from pipeline.kafka.connect import make_codec
from pipeline.kafka.read_back import read_range
from pipeline.settings import Settings
from pipeline.stack import agent_specs
from pipeline.supervisor import RestartPolicy, Supervisor
from pipeline.topics import REQUESTS, RESULTS, request_partition, shard_of
from tests.eventually import eventually
from tests.integration.bad_requests import bad_request
from tests.integration.running import Running

pytestmark = pytest.mark.integration

_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Gateways:
    """Two gateways of one pipeline; the first dies between an acknowledgement and its answer when a file is there."""

    settings: Settings
    supervisor: Supervisor
    key: str
    deadly: Path
    log: Path

    def url(self, slot: int = 0) -> str:
        """
        Raises:
            LookupError: it does not run.
        """
        for agent in read_agents(self.settings):
            if agent.name == f"gateway-{slot}" and agent.body:
                return agent.url.removesuffix("/healthz")
        raise LookupError(f"gateway {slot}")

    def client(self, slot: int = 0) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url(slot), headers=headers, timeout=_PATIENCE)

    @property
    def pid(self) -> int:
        return self.supervisor.states[0].pid or 0

    def ready(self) -> bool:
        try:
            return all(httpx.get(f"{self.url(slot)}/readyz").status_code == 200 for slot in (0, 1))
        except (LookupError, httpx.TransportError):
            return False


@pytest.fixture(scope="module")
def gateways(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    folder = tmp_path_factory.mktemp("gateways")
    settings = running.settings.model_copy(update={"home": folder})
    with changed_keys(folder / "keys.json") as keys:
        stored, key = new_key("acme", 0)
        keys.append(stored)
    own = {"TALLYSTREAM_GATEWAY__PORT": "0", "TALLYSTREAM_WEBHOOK__ALLOW_PRIVATE": "true"}
    deadly = folder / "deadly"
    mortal, other = agent_specs(settings, ("gateway", "gateway"), own)
    mortal = replace(mortal, argv=(sys.executable, "-m", "tests.integration.dying_gateway", str(deadly)))
    patient = RestartPolicy(first_delay=0.2, factor=1.0, give_up_after=1_000)
    with Supervisor([mortal, other], print, folder=folder, policy=patient) as supervisor:
        found = Gateways(settings, supervisor, key, deadly, supervisor.states[0].log)
        eventually(found.ready, _PATIENCE)
        yield found


def finished(client: httpx.Client, request_id: str, include: str = "") -> dict[str, Any]:
    task: dict[str, Any] = {}

    def ended() -> bool:
        nonlocal task
        task = client.get(f"/v1/tasks/{request_id}", params={"include": include} if include else {}).json()
        return task["finished_at"] is not None

    eventually(ended, _PATIENCE)
    return task


def records_of(settings: Settings, topic: str, request_id: str) -> list[Any]:
    """Every record of a request of priority 3 that stands on a topic now."""
    shard = shard_of(request_id, settings.shards)
    place = topic, request_partition(request_id, 3, settings.shards) if topic == REQUESTS else shard
    codec = make_codec(settings)
    return [
        codec.decode(value_of(message))
        for message in read_range(settings, place, 0, None)
        if message.key() == request_id.encode()
    ]


def test_a_question_over_http_is_answered(gateways: Gateways, running: Running) -> None:
    body = {"prompt": "answers=7,7,8", "metadata": {"a": "b"}, "callback": {"url": running.receiver.url}}
    with gateways.client() as one, gateways.client(1) as other:
        accepted = one.post("/v1/tasks", json=body)
        assert accepted.status_code == 202
        request_id = accepted.json()["id"]
        assert other.get(accepted.headers["Location"]).status_code == 200, "at once, at the other one too"
        task = finished(other, request_id, "request")
        assert (task["status"], task["answer"], task["metadata"]) == ("done", "7", {"a": "b"})
        samples = f"/v1/tasks/{request_id}?include=samples"  # another topic, perhaps read later
        eventually(
            lambda: {each["index"] for each in other.get(samples).json()["samples"]} >= {0, 1}, _PATIENCE
        )
        assert task["request"]["prompt"] == "answers=7,7,8"
        eventually(
            lambda: "delivered" in one.get(f"/v1/tasks/{request_id}?include=deliveries").text, _PATIENCE
        )
        assert request_id in [each["id"] for each in one.get("/v1/tasks?status=done").json()["tasks"]]
        assert one.delete(f"/v1/tasks/{request_id}").status_code == 200


def test_fifty_equal_posts_at_two_gateways_are_one_task(gateways: Gateways) -> None:
    async def post_all() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {gateways.key}", "Idempotency-Key": "fifty"}
        async with httpx.AsyncClient(headers=headers, timeout=_PATIENCE) as client:
            urls = [f"{gateways.url(number % 2)}/v1/tasks" for number in range(50)]
            return await asyncio.gather(*(client.post(url, json={"prompt": "x"}) for url in urls))

    answers = asyncio.run(post_all())
    assert {answer.status_code for answer in answers} == {202}
    (request_id,) = {answer.json()["id"] for answer in answers}
    with gateways.client() as client:
        finished(client, request_id)
        conflict = client.post("/v1/tasks", json={"prompt": "y"}, headers={"Idempotency-Key": "fifty"})
        assert (conflict.status_code, conflict.json()["code"]) == (422, "idempotency_conflict")
    assert 1 <= len(records_of(gateways.settings, REQUESTS, request_id)) <= 2, "one of each gateway at most"
    finals = [each for each in records_of(gateways.settings, RESULTS, request_id) if each.status.terminal]
    assert len(finals) == 1


def test_bodies_that_differ_at_two_gateways(gateways: Gateways) -> None:
    """Who came second hears of it, whichever that is."""

    async def post_both() -> list[httpx.Response]:
        headers = {"Authorization": f"Bearer {gateways.key}", "Idempotency-Key": "differ"}
        async with httpx.AsyncClient(headers=headers, timeout=_PATIENCE) as client:
            return await asyncio.gather(
                *(
                    client.post(f"{gateways.url(slot)}/v1/tasks", json={"prompt": f"answers={slot}"})
                    for slot in (0, 1)
                )
            )

    answers = asyncio.run(post_both())
    assert sorted(answer.status_code for answer in answers) == [202, 422]
    winner = next(slot for slot, answer in enumerate(answers) if answer.status_code == 202)
    with gateways.client() as client:
        assert finished(client, answers[winner].json()["id"])["answer"] == str(winner)


def test_killed_between_acknowledgement_and_answer(gateways: Gateways) -> None:
    headers = {"Idempotency-Key": "killed"}
    before = gateways.pid
    gateways.deadly.touch()
    with gateways.client() as client, pytest.raises(httpx.TransportError):
        client.post("/v1/tasks", json={"prompt": "answers=5"}, headers=headers)
    eventually(lambda: gateways.pid not in (0, before) and gateways.ready(), _PATIENCE)
    with gateways.client() as client:
        again = client.post("/v1/tasks", json={"prompt": "answers=5"}, headers=headers)
        assert (again.status_code, again.headers.get("Idempotency-Replayed")) == (202, "true")
        request_id = again.json()["id"]
        assert finished(client, request_id)["answer"] == "5"
    assert len(records_of(gateways.settings, REQUESTS, request_id)) == 1


def test_a_thousand_bad_requests(gateways: Gateways) -> None:
    draws = random.Random(8)
    with gateways.client() as client:
        sizes: list[int] = []
        answered = 0
        for number in range(1_000):
            method, path, headers, body = bad_request(draws)
            raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
            url = str(URL(str(client.base_url).rstrip("/") + path, encoded=True))
            try:
                answer = client.request(method, url, headers=raw, content=body)
            except httpx.TransportError:
                continue  # what is no HTTP may be cut off
            answered += answer.status_code >= 400
            assert answer.status_code < 500, (method, path[:100], headers, body[:300], answer.text)
            assert answer.status_code not in (200, 202) or method in ("GET", "HEAD", "OPTIONS"), (path, body)
            assert "Set-Cookie" not in answer.headers
            assert len(answer.content) < 20_000
            if number % 100 == 99:
                sizes.append(resident_bytes(gateways.pid))
        assert client.post("/v1/tasks", json={"prompt": "x"}).status_code == 202
    assert answered > 900
    assert max(sizes) - sizes[0] < 32 * 1024 * 1024
    assert "Traceback" not in gateways.log.read_text()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_the_description_is_true(gateways: Gateways, mode: GenerationMode) -> None:
    """Every operation, with what its schema allows or forbids, for a task that is there and for others."""
    url, headers = gateways.url(), {"Authorization": f"Bearer {gateways.key}"}
    with gateways.client() as client:
        request_id = client.post("/v1/tasks", json={"prompt": "answers=1,1,2", "mode": "deep"}).json()["id"]
        finished(client, request_id)
    for found in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations():
        operation = found.ok()
        asks = "parameters" in operation.definition.raw or "requestBody" in operation.definition.raw
        if operation.path.endswith("/ws") or (mode.is_negative and not asks):
            continue
        _check_operation(operation.as_strategy(mode), url, headers)
        if mode.is_positive and "{id}" in operation.path:
            there = operation.as_strategy(mode, path_parameters={"id": request_id})
            _check_operation(there, url, headers)


def _check_operation(cases: Any, url: str, headers: dict[str, str]) -> None:
    @given(cases)
    @examples(max_examples=5, suppress_health_check=list(HealthCheck))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(
            url, headers=headers, excluded_checks=[positive_data_acceptance], timeout=_PATIENCE
        )

    check()
