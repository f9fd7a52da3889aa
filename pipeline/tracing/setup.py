"""Where spans go: to a collector that speaks OTLP over HTTP, if one is set. Telling never holds up what is told of."""

from __future__ import annotations

import atexit
import logging

from opentelemetry import trace

from pipeline.errors import MissingDependencyError
from pipeline.settings import Settings

_LONGEST_CALL = 3.0
"""Seconds that a collector is waited for: what it has not taken by then is lost."""


def export_traces(settings: Settings, process: str) -> None:
    """Tell a process's spans until it ends; nothing without an endpoint.

    Args:
        process: role and slot, e.g. ``worker-0``.

    Raises:
        MissingDependencyError: an endpoint is set, and the packages of the extra ``tracing`` are not installed.
    """
    logging.getLogger("opentelemetry").setLevel(
        logging.ERROR
    )  # a single try, or a caller's odd text, is no news
    if not settings.tracing.endpoint:
        return
    try:
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from pipeline.tracing.exporter import PatientOnce, new_provider
    except ImportError as error:
        raise MissingDependencyError(
            f"TALLYSTREAM_TRACING__ENDPOINT is set, and {error.name} is missing: pip install 'tallystream[tracing]'"
        ) from error
    provider = new_provider(settings, process)
    exporter = PatientOnce(f"{settings.tracing.endpoint}/v1/traces", timeout=_LONGEST_CALL)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    atexit.register(exporter.end)  # before the provider's own, which came first
    trace.set_tracer_provider(provider)
