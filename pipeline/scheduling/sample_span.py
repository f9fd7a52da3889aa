"""The span of a sample: from its begin in the engine to its end there, with what it used."""

from __future__ import annotations

from opentelemetry.util.types import AttributeValue

from pipeline.events import Sample
from pipeline.scheduling.waiting import Assigned
from pipeline.tracing.spans import NANOSECONDS, Span, SpanKind, begin, failed, of_request


def begin_sample_span(assigned: Assigned, sample: Sample) -> Span:
    """A part of its request's trace, linked to the batch that it came in; end it with ``end_sample_span``."""
    times = sample.timings
    told: dict[str, AttributeValue] = {
        **of_request(sample.request_id, sample.run),
        "tallystream.sample_index": sample.sample_index,
        "tallystream.role": sample.role,
        "tallystream.path": sample.path,
        "tallystream.worker": sample.worker,
        "tallystream.cached": sample.cached,
        "tallystream.queued_ms": times.started_at - times.queued_at,
        "gen_ai.request.temperature": sample.temperature,
        "gen_ai.usage.input_tokens": sample.prompt_tokens,
        "gen_ai.usage.output_tokens": sample.completion_tokens,
        "gen_ai.response.finish_reasons": [sample.finish_reason],
    }
    span = begin(
        "draw sample",
        SpanKind.CONSUMER,
        assigned.group.trace,
        links=[assigned.batch_trace],
        at=times.started_at,
        attributes=told,
    )
    if times.first_token_at is not None:
        span.add_event("first token", timestamp=times.first_token_at * NANOSECONDS)
    if sample.error is not None:
        failed(span, sample.error.code)
    return span


def end_sample_span(span: Span, sample: Sample) -> None:
    """Its end was the engine's, not its publication."""
    span.end(sample.timings.finished_at * NANOSECONDS)
