"""Live events through a real Kafka, real agents and two gateways."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from pipeline.event_stream import EventStreamReader, StreamEvent
from pipeline.events import Opened, Sample
from pipeline.fusion.stop_rules import stays_ahead
from pipeline.http_client import HttpClient, Remote
from pipeline.kafka.progress import ProgressWriter
from pipeline.live.position import Position
from pipeline.telemetry import now_ms
from pipeline.topics import SAMPLES
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.gateways import pipeline_with_gateways
from tests.integration.own_pipeline import OwnPipeline
from tests.unit.window_events import opened, sample

pytestmark = pytest.mark.integration

_DURABLE = ("sample", "first_answer", "result", "delivery")


@dataclass(frozen=True, slots=True)
class World:
    """A pipeline and the addresses of its two gateways."""

    pipeline: OwnPipeline
    urls: tuple[str, str]

    def client(self, number: int = 0) -> HttpClient:
        return HttpClient(Remote(self.urls[number]), patience=120)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Without a batcher and a worker at first: the test that plays them stands before those that need them."""
    with pipeline_with_gateways(tmp_path_factory.mktemp("live"), 2) as (pipeline, (first, second)):
        yield World(pipeline, (first, second))


@pytest.fixture(scope="module")
def drawing(world: World) -> Iterator[World]:
    with world.pipeline.agents(["batcher", "worker"]):
        yield world


def ask(world: World, prompt: str = "answers=7,7,8,7,7", **body: Any) -> str:
    with world.client() as client:
        return client.submit({"prompt": prompt} | body, str(uuid.uuid4()))["id"]


def read(
    url: str, request_id: str, last: str = "", most: int | None = None, into: list[StreamEvent] | None = None
) -> list[StreamEvent]:
    """One connection's events, as they were sent; after ``most`` of them it is cut off."""
    reader, found = EventStreamReader(2**20), [] if into is None else into
    headers = {"Last-Event-ID": last} if last else {}
    with httpx.stream("GET", f"{url}/v1/tasks/{request_id}/events", headers=headers, timeout=60) as response:
        assert response.status_code == 200
        for received in response.iter_raw():
            found += reader.feed(received)
            if most is not None and len(found) >= most:
                return found[:most]
    return found


def data(events: Sequence[StreamEvent], name: str) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events if event.name == name]


def durable(events: Sequence[StreamEvent]) -> dict[str, list[str]]:
    """What can not be lost, by topic, in the order in which it was told.

    Without samples that came after the vote: one who has left before them was told nothing wrong.
    """
    voted = {index for each in data(events, "result") for vote in each["votes"] for index in vote["samples"]}
    told = [
        event
        for event in events
        if event.name in _DURABLE and (event.name != "sample" or json.loads(event.data)["sample"] in voted)
    ]
    return {name: [event.data for event in told if event.name == name] for name in _DURABLE}


def test_each_thing_is_told_when_it_happens(world: World) -> None:
    """The test is batcher and worker, so that nothing hangs on who is quicker."""
    request_id = ask(world)
    seen: list[StreamEvent] = []
    watching = threading.Thread(target=lambda: read(world.urls[0], request_id, into=seen))
    with Asker(world.pipeline.settings) as asker:
        tell = ProgressWriter(asker.settings, asker.codec)

        def put(event: Opened | Sample) -> None:
            asker.put_bytes(asker.codec.encode(event), 0, request_id.encode(), topic=SAMPLES)

        now = now_ms()
        put(replace(opened(3, request_id=request_id), created_at=now, opened_at=now, deadline_at=now + 10**6))
        watching.start()
        eventually(lambda: data(seen, "state"))
        tell.tokens(request_id, 0, 0, "So it ", now)
        eventually(lambda: data(seen, "tokens"))
        assert data(seen, "state") == [{"status": "pending"}, {"status": "running"}]
        put(sample(0, "7", request_id=request_id))
        eventually(lambda: data(seen, "votes"))
        put(sample(1, "7", request_id=request_id))
        watching.join()
    (vote,) = [vote for vote in data(seen, "votes") if vote["votes_in"] == 1]
    assert (vote["leader"], vote["expected"]) == ("7", 3)
    assert vote["stays_ahead"] == pytest.approx(float(stays_ahead(1, 0, 2)))
    assert data(seen, "tokens") == [{"sample": 0, "text": "So it "}]
    assert [each["text"] for each in data(seen, "sample")] == ["So it follows. The answer is 7."] * 2
    assert data(seen, "result")[0]["answer"] == "7"
    names = [event.name for event in seen]
    assert set(names[names.index("result") + 1 : -1]) <= {"sample"}  # another topic, perhaps read later
    assert names[-1] == "end" and not data(seen, "gap")


def test_a_task_is_seen_from_its_begin_to_its_callback(drawing: World) -> None:
    receiver = drawing.pipeline.receiver
    callback = {"url": receiver.url, "events": ["first_answer", "done"]}
    request_id = ask(drawing, mode="deep", callback=callback)
    events = read(drawing.urls[0], request_id)
    states = [state["status"] for state in data(events, "state")]
    assert states[-1] == "done" and len(states) == len(set(states))
    assert data(events, "first_answer")[0]["answer"] == "7"
    assert (result := data(events, "result")[0])["answer"] == "7" and result["id"] == request_id
    texts = {sample["sample"]: sample["text"] for sample in data(events, "sample")}
    assert set(texts) >= {0} and not data(events, "gap")
    shown: dict[int, str] = {}
    for piece in data(events, "tokens"):
        shown[piece["sample"]] = shown.get(piece["sample"], "") + piece["text"]
    assert all(texts[index].startswith(text) for index, text in shown.items() if index in texts)
    assert any(each["state"] == "delivered" for each in data(events, "delivery"))
    assert events[-1].name == "end"


def test_a_reader_that_is_cut_off_again_and_again_sees_all_of_it_once(drawing: World) -> None:
    """At both gateways in turn, as behind a load balancer."""
    request_id = ask(drawing, mode="deep")
    whole: list[StreamEvent] = []
    watching = threading.Thread(target=lambda: whole.extend(read(drawing.urls[0], request_id)))
    watching.start()
    parts: list[StreamEvent] = []
    number, last = 0, ""
    while not parts or parts[-1].name != "end":
        part = read(drawing.urls[number % 2], request_id, last, most=4)
        last = next((event.id for event in reversed(part) if event.id), last)
        parts += part
        number += 1
    watching.join()
    assert number > 2
    assert durable(parts) == durable(whole)
    assert len(durable(whole)["sample"]) >= 3
    for index in {piece["sample"] for piece in data(whole, "tokens")}:
        shown = [
            "".join(p["text"] for p in data(e, "tokens") if p["sample"] == index) for e in (whole, parts)
        ]
        assert data(parts, "gap") or shown[0].startswith(shown[1]) or shown[1].startswith(shown[0])


def test_two_gateways_tell_the_same_under_ids_that_both_understand(drawing: World) -> None:
    request_id = ask(drawing, "answers=7", sampling={"n": 2})  # two: neither is left over when it is decided
    for url in drawing.urls:  # until its view has the samples too, and tells them where they belong
        eventually(lambda url=url: [event.name for event in read(url, request_id)][-2:] == ["result", "end"])
    first, second = (read(url, request_id) for url in drawing.urls)
    assert [(event.name, event.id, event.data) for event in first] == [
        (event.name, event.id, event.data) for event in second
    ]
    places = [Position.parse(event.id) for event in first if event.id]
    assert places == sorted(places) and places[-1].results >= 0
    for number, event in enumerate(first):
        if event.id and event.name != "end":
            again = read(drawing.urls[1], request_id, event.id)
            assert [each.data for each in again[1:]] == [each.data for each in first[number + 1 :]]


def test_a_listener_that_leaves_does_not_stop_its_task(drawing: World) -> None:
    """Case G11."""
    receiver = drawing.pipeline.receiver
    request_id = ask(drawing, callback={"url": receiver.url, "events": ["done"]})
    read(drawing.urls[0], request_id, most=1)
    eventually(lambda: receiver.verified(request_id, "done"))
