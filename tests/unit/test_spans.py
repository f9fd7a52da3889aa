"""How a trace is carried from step to step, told or not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pipeline.errors import MissingDependencyError
from pipeline.settings import load_settings
from pipeline.tracing.exporter import PatientOnce, new_provider
from pipeline.tracing.setup import export_traces
from pipeline.tracing.spans import (
    SpanKind,
    after,
    begin,
    bounded,
    failed,
    fields_of,
    headers_of,
    sampled,
    trace_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize(
    "trace", ["", PARENT, UNSAMPLED, f"{PARENT} vendor=7,other=a b", f"{PARENT} v={'x' * 510}"]
)
def test_a_trace_goes_through_headers_and_comes_back(trace: str) -> None:
    assert trace_of(headers_of(trace)) == trace


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("traceparent", None),),
        (("traceparent", b""),),
        (("traceparent", PARENT.upper().encode()),),
        (("traceparent", PARENT.encode()[:-1]),),
        (("traceparent", b"\xff" * 55),),
        (("traceparent", PARENT.encode() + b"\n"),),
        (("tracestate", b"vendor=7"),),
        (("traceparent", PARENT.encode() + b"-more"),),
        (("traceparent", b"ff" + PARENT.encode()[2:]),),
        (("traceparent", b"01" + PARENT.encode()[2:] + b"more"),),
    ],
)
def test_what_is_no_trace_is_none(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    assert trace_of(headers) == ""


def test_of_a_later_version_the_first_four_parts_count() -> None:
    later = "01" + PARENT[2:]
    assert trace_of((("traceparent", f"{later}-more".encode()),)) == later


def test_a_trace_in_a_field_is_as_bounded_as_one_in_headers() -> None:
    assert [bounded(f"{PARENT} {state}") for state in ("v=7", "v=" + "x" * 511, "")] == [
        f"{PARENT} v=7",
        PARENT,
        PARENT,
    ]
    assert bounded("x" * 3_000_000) == bounded("") == ""


def test_the_first_of_two_traces_counts() -> None:
    other = PARENT.replace("4", "5").encode()
    assert trace_of((("traceparent", PARENT.encode()), ("traceparent", other))) == PARENT


@pytest.mark.parametrize("state", [b"v=" + b"x" * 511, b"v=\r\nX-Evil: 1"])
def test_a_state_that_could_do_harm_is_left_out(state: bytes) -> None:
    assert trace_of((("traceparent", PARENT.encode()), ("tracestate", state))) == PARENT


@pytest.mark.parametrize("trace", ["", PARENT, UNSAMPLED, f"{PARENT} vendor=7"])
def test_with_nobody_to_tell_a_trace_is_handed_on_as_it_came(trace: str) -> None:
    assert after(begin("step", SpanKind.INTERNAL, trace)) == trace


@pytest.mark.parametrize("trace", ["x", "00-0-0-0", f"00-{'0' * 32}-{'0' * 16}-01", PARENT[:-3]])
def test_a_trace_that_was_kept_and_is_none_begins_no_error(trace: str) -> None:
    assert after(begin("step", SpanKind.INTERNAL, trace, links=[trace])) == ""


def test_steps_follow_each_other(told_spans: InMemorySpanExporter) -> None:
    first = begin("first", SpanKind.CONSUMER, f"{PARENT} vendor=7", attributes={"a": 1}, at=5)
    second = begin("second", SpanKind.CLIENT, after(first), links=[UNSAMPLED, "", PARENT])
    failed(second, "it_broke")
    for span in (second, first):
        span.end()
    inner, outer = told_spans.get_finished_spans()
    assert outer.parent is not None and f"{outer.parent.span_id:016x}" == SPAN
    assert f"{outer.context.trace_id:032x}" == f"{inner.context.trace_id:032x}" == TRACE
    assert inner.parent is not None and inner.parent.span_id == outer.context.span_id
    assert outer.start_time == 5_000_000 and dict(outer.attributes or {}) == {"a": 1}
    assert after(first).endswith("-01 vendor=7")
    assert len(inner.links) == 2
    assert inner.status.status_code is StatusCode.ERROR
    assert dict(inner.attributes or {})["error.type"] == "it_broke"


def test_a_step_that_is_never_ended_is_never_told(told_spans: InMemorySpanExporter) -> None:
    begin("step", SpanKind.CONSUMER, PARENT)
    assert not told_spans.get_finished_spans()


def test_who_began_a_trace_says_whether_it_is_told() -> None:
    assert [sampled(trace) for trace in (PARENT, UNSAMPLED, "", "x")] == [True, False, False, False]


def test_a_callback_gets_the_fields_of_http() -> None:
    assert fields_of(f"{PARENT} vendor=7") == {"traceparent": PARENT, "tracestate": "vendor=7"}
    assert fields_of("") == {}


def test_an_endpoint_without_the_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    settings = load_settings(tracing={"endpoint": "http://127.0.0.1:1"})
    with pytest.raises(MissingDependencyError, match=r"tallystream\[tracing\]"):
        export_traces(settings, "worker-0")


def test_a_collector_that_is_away_ends_no_process_and_says_so_once() -> None:
    program = """
from pipeline.settings import load_settings
from pipeline.telemetry import configure_telemetry
from pipeline.tracing.spans import SpanKind, begin
configure_telemetry(load_settings(tracing={"endpoint": "http://127.0.0.1:1"}), "worker-0")
for _ in range(2_000):
    begin("step", SpanKind.INTERNAL).end()
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stderr.count("Failed to export") == 1


def test_who_sends_a_trace_decides_and_of_those_that_begin_here_a_share_is_told() -> None:
    settings = load_settings(app="mine", tracing={"share": 0.25})
    provider = new_provider(settings, "worker-3")
    sampler = provider.sampler.get_description()
    assert "ParentBased{root:TraceIdRatioBased{0.25}" in sampler
    assert "remoteParentSampled:AlwaysOnSampler,remoteParentNotSampled:AlwaysOffSampler" in sampler
    assert provider.resource.attributes["service.name"] == "mine-worker"
    assert provider.resource.attributes["service.instance.id"] == "3"
    provider.shutdown()


def test_a_collector_is_asked_again_until_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [SpanExportResult.FAILURE, SpanExportResult.SUCCESS, SpanExportResult.FAILURE]
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda self, spans: answers.pop(0))
    exporter = PatientOnce("http://127.0.0.1:1/v1/traces")
    assert exporter.export([]) is SpanExportResult.FAILURE
    assert exporter.export([]) is SpanExportResult.SUCCESS
    exporter.end()
    assert exporter.export([]) is SpanExportResult.FAILURE
    assert exporter.export([]) is SpanExportResult.FAILURE  # and nobody was asked
