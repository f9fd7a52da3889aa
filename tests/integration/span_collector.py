"""A collector of OTLP over HTTP that keeps what it is told, and an endpoint for callbacks that keeps their fields."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class ToldSpan:
    """A span as a collector has it; ids in hexadecimal, as they stand in a ``traceparent``."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    begin: int
    end: int
    failed: bool


@dataclass
class SpanCollector:
    """Listens on a free port."""

    url: str = ""
    spans: list[ToldSpan] = field(default_factory=list[ToldSpan])
    callbacks: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def of(self, trace: str) -> list[ToldSpan]:
        return [span for span in list(self.spans) if span.trace == trace]

    def named(self, trace: str, name: str) -> list[ToldSpan]:
        return [span for span in self.of(trace) if span.name == name]


@contextmanager
def collecting() -> Iterator[SpanCollector]:
    """``/v1/traces`` takes spans, every other path takes callbacks."""
    found = SpanCollector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                unpacked = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
                found.spans += _told(ExportTraceServiceRequest.FromString(unpacked))
            else:
                found.callbacks.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _told(request: ExportTraceServiceRequest) -> Iterator[ToldSpan]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ToldSpan(
                    service=service,
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    attributes=_attributes(span.attributes),
                    begin=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    failed=span.status.code == 2,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
