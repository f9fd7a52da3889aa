"""A schema registry that is away is waited for: nothing is taken for bad, nothing is lost, no membership ends."""

from __future__ import annotations

import json
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline.errors import RegistryDownError, UnknownSchemaError
from pipeline.events import (
    Batch,
    Callback,
    Event,
    InferenceRequest,
    Opened,
    Result,
    Sample,
)
from pipeline.ids import new_request_id
from pipeline.kafka.codec import Codec
from pipeline.kafka.registry import Registry
from pipeline.kafka.schemas import current_schemas, make_schema
from pipeline.telemetry import now_ms
from pipeline.topics import DEAD_LETTERS, DELIVERIES, LANES, REQUESTS, RESULTS, SAMPLES, request_partition
from tests.integration.asker import Asker
from tests.integration.counting import once_each, recorded_callbacks
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

_AWAY = 20.0
"""Seconds; several times what a member may be silent here."""
_FOLLOWED = (LANES[3], SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS)
_UNKNOWN = b"\0\0\x0f\xff\xff" + b"x" * 8


class Proxy:
    """In front of a real registry; answers as told while it is switched off."""

    def __init__(self, target: str) -> None:
        self.answer: tuple[int, bytes] | None = None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._pass_on(None)

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def _pass_on(self, body: bytes | None) -> None:
                status, answer = proxy.answer or _ask(f"{target}{self.path}", body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _ask(url: str, body: bytes | None) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module")
def proxy(registry_url: str) -> Iterator[Proxy]:
    with Proxy(registry_url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pipeline(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPipeline]:
    """Its members lose their partitions when they don't poll for 3 s."""
    with own_pipeline(
        tmp_path_factory.mktemp("agents"),
        registry_url=proxy.url,
        env={"TALLYSTREAM_MAX_POLL_INTERVAL_MS": "3000"},
    ) as pipeline:
        yield pipeline


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 429, 401, 404])
def test_an_answer_of_somebody_else_is_no_verdict_on_the_bytes(proxy: Proxy, status: int) -> None:
    """A 404 without the registry's own code comes from something in between."""
    codec = Codec(Registry(proxy.url))
    proxy.answer = (status, b"<html>out of order</html>")
    try:
        with pytest.raises(RegistryDownError):
            codec.decode(_UNKNOWN)
        with pytest.raises(RegistryDownError):
            codec.register([InferenceRequest])
    finally:
        proxy.answer = None
    with pytest.raises(UnknownSchemaError):
        codec.decode(_UNKNOWN)


@pytest.mark.parametrize("topic", [REQUESTS, LANES[3], SAMPLES, RESULTS])
def test_an_unknown_id_goes_to_dead_letters_while_the_registry_answers(
    pipeline: OwnPipeline, topic: str
) -> None:
    value = _UNKNOWN + topic.encode()
    with Asker(pipeline.settings, follow=[DEAD_LETTERS]) as asker:
        asker.put_bytes(value, 0, b"k", topic=topic)
        assert asker.dead_letter(value)["code"] == "unknown_schema"


def test_a_registry_that_is_away_delays_everything_and_loses_nothing(
    pipeline: OwnPipeline, proxy: Proxy, registry_url: str
) -> None:
    """Ten good records for each of the four agents, under ids that no agent has looked up before."""
    with Asker(pipeline.settings, follow=_FOLLOWED) as asker:
        pattern = asker.ask("answers=7,7,8", callback=Callback(pipeline.receiver.url), priority=3)
        recorded_callbacks(asker, asker.finals([pattern]))
        put = Foreign(asker, registry_url, pattern)
        proxy.answer = (503, b"{}")
        whole, drawn, voted, called = (put.ten(kind) for kind in (InferenceRequest, Batch, Sample, Result))
        time.sleep(_AWAY)
        proxy.answer = None
        finals = once_each(asker, [*whole, *voted])
        assert {result.answer for result in finals.values()} == {"7"}
        recorded_callbacks(asker, [*whole, *called])
        asker.until(lambda: set(drawn) <= {s.request_id for s in asker.of(Sample)}, "samples")
        assert not asker.dead
        assert all(pipeline.receiver.verified(request_id, "done") for request_id in called)
    assert not pipeline.exits
    assert "MAXPOLL" not in pipeline.logs("w*")


class Foreign:
    """Puts events in the place of the agent that writes them, as a producer with schemas of its own does."""

    def __init__(self, asker: Asker, registry_url: str, pattern: str) -> None:
        self._asker = asker
        self._ids: dict[str, int] = {}
        registry = Registry(registry_url, timeout=60)
        for kind in (InferenceRequest, Batch, Opened, Sample, Result):
            text = json.loads(current_schemas()[kind.__name__].text) | {"doc": "as somebody else declares it"}
            self._ids[kind.__name__] = registry.id_of(make_schema(json.dumps(text)))
        events = [event for _, _, event in asker.events]
        self._batch = next(e for e in events if isinstance(e, Batch) and _of(e, pattern))
        self._window = [e for e in events if isinstance(e, Opened | Sample) and e.request_id == pattern]
        self._result = next(e for e in events if isinstance(e, Result) and e.request_id == pattern)

    def ten(self, kind: type[Event]) -> list[str]:
        """Put what leads to ten requests' work on the topic that takes this kind; returns their ids."""
        ids = [new_request_id(now_ms()) for _ in range(10)]
        for request_id in ids:
            for topic, event in self._records(kind, request_id):
                body = Codec().encode(event)[10:]
                framed = struct.pack(">bI", 0, self._ids[type(event).__name__]) + body
                place = request_partition(request_id, 3, 1) if topic == REQUESTS else 0
                self._asker.put_bytes(framed, place, request_id.encode(), topic=topic)
        return ids

    def _records(self, kind: type[Event], request_id: str) -> Iterator[tuple[str, Event]]:
        if kind is InferenceRequest:
            callback = self._result.callback
            yield REQUESTS, InferenceRequest(request_id, "answers=7,7,8", callback=callback)
        elif kind is Batch:
            groups = tuple(replace(group, request_id=request_id) for group in self._batch.groups)
            yield LANES[3], replace(self._batch, batch_id=request_id, groups=groups)
        elif kind is Sample:
            for event in self._window:
                yield SAMPLES, replace(event, request_id=request_id)
        else:
            yield RESULTS, replace(self._result, request_id=request_id)


def _of(batch: Batch, request_id: str) -> bool:
    return [group.request_id for group in batch.groups] == [request_id]
