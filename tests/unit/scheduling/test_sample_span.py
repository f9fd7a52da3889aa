"""What the span of a sample says."""

from __future__ import annotations

from dataclasses import replace

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from test_unpack import SOURCE, group

from pipeline.events import Batch, ErrorInfo, FinishReason, Role, Sample, SampleTimings
from pipeline.scheduling.sample_span import begin_sample_span, end_sample_span
from pipeline.scheduling.unpack import unpack

REQUEST, BATCH = (f"00-{digit * 32}-{digit * 16}-01" for digit in "ab")
TIMES = SampleTimings(10, 12, 13, 20)
SAMPLE = Sample(
    "a", 0, 1, Role.ANSWER, "direct", "secret", FinishReason.LENGTH, 7, 9, -0.5, 5, 0.5, TIMES, "w"
)


def test_it_lasts_as_long_as_the_engine_drew_and_says_what_was_used(told_spans: InMemorySpanExporter) -> None:
    batch = Batch("b", 3, 7, (replace(group("a", 1), trace=REQUEST),))
    source = replace(SOURCE, headers=(("traceparent", BATCH.encode()),))
    (assigned,) = unpack(batch, source, lambda _: 0)
    for sample in (SAMPLE, replace(SAMPLE, error=ErrorInfo("engine_error", "x", True))):
        end_sample_span(begin_sample_span(assigned, sample), sample)
    span, broken = told_spans.get_finished_spans()
    assert (span.start_time, span.end_time) == (12_000_000, 20_000_000)
    assert span.parent is not None and f"{span.parent.trace_id:032x}" == "a" * 32
    assert [f"{link.context.trace_id:032x}" for link in span.links] == ["b" * 32]
    assert [(event.name, event.timestamp) for event in span.events] == [("first token", 13_000_000)]
    assert dict(span.attributes or {}) == {
        "tallystream.request_id": "a",
        "tallystream.run": 0,
        "tallystream.sample_index": 1,
        "tallystream.role": "answer",
        "tallystream.path": "direct",
        "tallystream.worker": "w",
        "tallystream.cached": False,
        "tallystream.queued_ms": 2,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.response.finish_reasons": ("length",),
    }
    assert dict(broken.attributes or {})["error.type"] == "engine_error"
