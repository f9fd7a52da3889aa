"""The spans of requests that went from a POST through every agent to a callback."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pipeline.kafka.read_back import read_back
from pipeline.topics import RESULTS, SAMPLES
from tests.eventually import eventually
from tests.integration.gateways import ready_gateways
from tests.integration.own_pipeline import own_pipeline
from tests.integration.span_collector import SpanCollector, collecting

pytestmark = pytest.mark.integration

CANARY = "canary-7f3a"
CLIENT_SPAN = "00f067aa0ba902b7"


@dataclass(frozen=True, slots=True)
class Traced:
    """Requests that went through together: the first in a trace of its client's, the others in none."""

    collector: SpanCollector
    trace: str
    ids: list[str]
    written: list[tuple[str, str]]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with collecting() as collector:
        env = {
            "TALLYSTREAM_TRACING__ENDPOINT": collector.url,
            "TALLYSTREAM_GATEWAY__PORT": "0",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        folder: Path = tmp_path_factory.mktemp("traced")
        agents = ("aggregator", "webhook", "gateway")
        with own_pipeline(folder, agents=agents, env=env) as pipeline:
            (url,) = ready_gateways(pipeline.settings, 1)
            trace = uuid.uuid4().hex
            ids: list[str] = []
            own = {"traceparent": f"00-{trace}-{CLIENT_SPAN}-01", "tracestate": "vendor=7"}
            for headers in (own, *[{}] * 5):
                body = {
                    "prompt": f"answers=7 {CANARY}",
                    "mode": "standard",
                    "callback": {"url": f"{collector.url}/hook"},
                }
                answer = httpx.post(f"{url}/v1/tasks", json=body, headers=headers)
                assert answer.status_code == 202, answer.text
                ids.append(answer.json()["id"])
            with pipeline.agents(["batcher", "worker"]):
                eventually(lambda: len(collector.callbacks) == len(ids), 120)
            written = [
                (message.topic() or "", dict(message.headers() or ()).get("traceparent", b"").decode())
                for message in read_back(pipeline.settings, [(topic, 0) for topic in (SAMPLES, RESULTS)])
            ]
        yield Traced(collector, trace, ids, written)  # every process has ended, and told the rest


def test_one_trace_leads_from_the_client_to_the_callback(traced: Traced) -> None:
    found = traced.collector
    (post,) = found.named(traced.trace, "POST /v1/tasks")
    (opened,) = found.named(traced.trace, "open request")
    samples = found.named(traced.trace, "draw sample")
    (voted,) = found.named(traced.trace, "vote")
    (called,) = found.named(traced.trace, "deliver callback")
    assert post.parent == CLIENT_SPAN
    assert opened.parent == post.id
    assert {sample.parent for sample in samples} == {opened.id} and len(samples) >= 2
    assert voted.parent == opened.id
    assert called.parent == voted.id
    (callback,) = [each for each in found.callbacks if traced.trace in each["traceparent"]]
    assert callback["traceparent"] == f"00-{traced.trace}-{called.id}-01"
    assert callback["tracestate"] == "vendor=7"


def test_records_that_others_read_carry_the_span_that_wrote_them(traced: Traced) -> None:
    spans = traced.collector.spans
    for topic, names in ((SAMPLES, {"open request", "draw sample"}), (RESULTS, {"vote"})):
        carried = {tuple(parent.split("-")[1:3]) for where, parent in traced.written if where == topic}
        assert carried == {(span.trace, span.id) for span in spans if span.name in names}


def test_each_span_says_who_told_it_and_of_what(traced: Traced) -> None:
    spans = traced.collector.of(traced.trace)
    services = {span.name: span.service for span in spans}
    assert services == {
        "POST /v1/tasks": "own-gateway",
        "open request": "own-batcher",
        "write batch": "own-batcher",
        "draw sample": "own-worker",
        "vote": "own-aggregator",
        "deliver callback": "own-webhook",
    }
    named = {span.attributes.get("tallystream.request_id") for span in spans}
    assert named == {traced.ids[0], None}  # a call and a batch are no request's
    assert all(span.begin <= span.end and not span.failed for span in spans)
    assert CANARY not in repr(traced.collector.spans)


def test_requests_of_one_batch_are_linked(traced: Traced) -> None:
    found = traced.collector
    opened = {(span.trace, span.id) for span in found.spans if span.name == "open request"}
    shared = [span for span in found.spans if span.attributes.get("tallystream.batch.requests", 1) > 1]
    assert shared  # they waited together for a batcher
    for batch in shared:
        requests = {(batch.trace, batch.parent), *batch.links}
        assert len(requests) == batch.attributes["tallystream.batch.requests"]
        assert requests <= opened
        for trace, _ in requests:
            drawn = found.named(trace, "draw sample")
            assert drawn and {sample.links for sample in drawn} == {((batch.trace, batch.id),)}


def test_a_trace_that_no_client_began_begins_with_its_call(traced: Traced) -> None:
    roots = [span for span in traced.collector.spans if not span.parent]
    assert {root.name for root in roots} == {"POST /v1/tasks"}
    assert len(roots) == len(traced.ids) - 1
