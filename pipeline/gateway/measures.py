"""``/metrics`` of a gateway: its calls, and what waits in the whole pipeline, as its view counts it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline import metrics
from pipeline.gateway.access import public
from pipeline.gateway.context import Gateway, gateway_of
from pipeline.gateway.problems import Handler
from pipeline.gateway.request_ids import route_of
from pipeline.telemetry import now_ms

_NO_ROUTE = "none"


class GatewayMetrics(Collector):
    """Read when they are asked for; nothing is counted twice."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterable[Metric]:
        load, now = self._gateway.store.load(), now_ms()
        lane = ["priority"]
        waiting = GaugeMetricFamily(
            metrics.REQUESTS_WAITING, "Requests of which no sample has come.", labels=lane
        )
        running = GaugeMetricFamily(
            metrics.REQUESTS_RUNNING, "Requests with a sample that have not ended.", labels=lane
        )
        oldest = GaugeMetricFamily(
            metrics.OLDEST_WAIT, "Of the oldest request of which no sample has come.", labels=lane
        )
        for priority, each in enumerate(load.lanes):
            waiting.add_metric([str(priority)], each.waiting)
            running.add_metric([str(priority)], each.running)
            since = each.oldest_at
            oldest.add_metric([str(priority)], 0.0 if since is None else max(0, now - since) / 1000)
        yield from (waiting, running, oldest)
        yield GaugeMetricFamily(
            metrics.VIEW_UNREAD, "Records on requests that the view has not read.", value=load.unread
        )
        yield GaugeMetricFamily(
            metrics.VIEW_SILENCE, "Since the view has heard of Kafka.", value=max(0, now - load.as_of) / 1000
        )
        hub = self._gateway.hub
        yield GaugeMetricFamily(metrics.LISTENERS, "Open listeners to live events.", value=hub.listeners)
        yield CounterMetricFamily(
            metrics.LISTENERS_DROPPED, "Listeners that were too slow.", value=hub.dropped
        )


@web.middleware
async def measure_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count a call, by the route that it met: its path may hold anything."""
    began = time.monotonic()
    route = route_of(request) or _NO_ROUTE
    method = _NO_ROUTE if route == _NO_ROUTE else request.method
    response = await handler(request)
    metrics.HTTP_REQUESTS.labels(method, route, str(response.status)).inc()
    if isinstance(response, web.Response):
        metrics.HTTP_SECONDS.labels(route).observe(time.monotonic() - began)
    return response


@public
async def tell(request: web.Request) -> web.Response:
    """What Prometheus reads: of the process, and of this gateway."""
    own = CollectorRegistry()
    own.register(GatewayMetrics(gateway_of(request)))
    page = generate_latest() + generate_latest(own)
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})


def routes() -> Iterable[web.RouteDef]:
    return (web.get("/metrics", tell),)
