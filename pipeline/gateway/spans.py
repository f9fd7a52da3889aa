"""The span of a call: the first of a trace that ends with the callback, or a part of the client's own."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web
from opentelemetry import trace

from pipeline.gateway.access import is_public
from pipeline.gateway.problems import Handler
from pipeline.gateway.request_ids import request_id_of, route_of
from pipeline.tracing.spans import SpanKind, begin, failed, trace_from


@web.middleware
async def trace_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a call writes to Kafka goes on with its trace; a listener's span ends when it leaves.

    Of probes, metrics and the page's parts there are none.
    """
    if is_public(request):
        return await handler(request)
    route = route_of(request)
    span = begin(
        f"{request.method} {route}" if route else request.method,
        SpanKind.SERVER,
        trace_from(
            request.headers.get("traceparent", ""), ",".join(request.headers.getall("tracestate", []))
        ),
        attributes={
            "http.request.method": request.method,
            "http.route": route,
            "tallystream.call_id": request_id_of(request),
        },
    )
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        response = await handler(request)
        span.set_attribute("http.response.status_code", response.status)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            failed(span, str(response.status))
    return response
