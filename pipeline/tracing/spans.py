"""One trace from the POST to the callback: what a request's steps carry on, and the spans that tell of them.

A trace is carried as text: W3C's ``traceparent``, then a blank and ``tracestate`` if there is one; empty: none. It
stands in a record's headers under W3C's names, and as a field where one record holds several requests or what is
to be done outlives it. Without `pipeline.tracing.setup` spans record nothing and hand on what came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from pipeline.kafka.records import Headers

__all__ = ["Span", "SpanKind"]

NANOSECONDS: Final = 1_000_000
"""Of a millisecond, as spans count."""

_PARENT, _STATE = "traceparent", "tracestate"
_PARENT_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_PARENT_LENGTH: Final = 55
"""Of what every version has; a later one may say more behind it."""
_LONGEST_STATE: Final = 512
"""Characters, as many as W3C asks to hand on at least: what a record leads to must fit its topic."""

_tracer = otel.get_tracer("tallystream")
_format = TraceContextTextMapPropagator()


def trace_of(headers: Headers) -> str:
    """The trace that a record's headers name; empty if they name none that can be read."""
    texts = {name: value for name, value in reversed(headers) if name in (_PARENT, _STATE)}
    if not (parent := texts.get(_PARENT)):
        return ""
    return trace_from(
        parent.decode("ascii", "replace"), (texts.get(_STATE) or b"").decode("ascii", "replace")
    )


def trace_from(parent: str, state: str) -> str:
    """The trace that W3C's two texts name."""
    parent, more = parent[:_PARENT_LENGTH], parent[_PARENT_LENGTH:]
    if not _PARENT_FORM.fullmatch(parent) or (more and (parent.startswith("00") or more[0] != "-")):
        return ""
    return f"{parent} {state}" if state and len(state) <= _LONGEST_STATE and state.isprintable() else parent


def bounded(trace: str) -> str:
    """A trace that was kept in a field, as it could have come in headers."""
    parent, _, state = trace.partition(" ")
    return trace_from(parent, state)


def fields_of(trace: str) -> dict[str, str]:
    """The fields that carry a trace over HTTP."""
    parent, _, state = trace.partition(" ")
    return {name: text for name, text in ((_PARENT, parent), (_STATE, state)) if text}


def headers_of(trace: str) -> Headers:
    """The record headers that carry a trace."""
    return tuple((name, text.encode()) for name, text in fields_of(trace).items())


def begin(
    name: str,
    kind: SpanKind,
    trace: str = "",
    *,
    links: Iterable[str] = (),
    at: int | None = None,
    attributes: Mapping[str, AttributeValue] | None = None,
) -> Span:
    """Begin a span; one that is never ended is never told, as what a failed transaction was to write.

    Args:
        trace: what it continues; empty: it begins a trace.
        links: other traces that it belongs to.
        at: when it began (ms since 1970); now by default.
    """
    context = _context(trace)
    others = [Link(otel.get_current_span(_context(link)).get_span_context()) for link in links if link]
    began = None if at is None else at * NANOSECONDS
    return _tracer.start_span(name, context, kind, attributes, others, start_time=began)


def after(span: Span) -> str:
    """What the steps after a span carry on."""
    fields: dict[str, str] = {}
    _format.inject(fields, otel.set_span_in_context(span, Context()))
    return trace_from(fields.get(_PARENT, ""), fields.get(_STATE, ""))


def current() -> str:
    """The trace of what runs now, of a caller's own spans too."""
    return after(otel.get_current_span())


def failed(span: Span, code: str) -> None:
    """Tell that a span's step went wrong, by an error's code."""
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, code))


def sampled(trace: str) -> bool:
    """Whether whoever began it wants its spans to be told."""
    return otel.get_current_span(_context(trace)).get_span_context().trace_flags.sampled


def of_request(request_id: str, run: int) -> dict[str, AttributeValue]:
    """How every span names its request."""
    return {"tallystream.request_id": request_id, "tallystream.run": run}


def _context(trace: str) -> Context:
    return _format.extract(fields_of(trace), Context())
