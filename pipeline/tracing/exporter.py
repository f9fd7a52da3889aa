"""Which spans are told and by whom, and the way to a collector; needs the extra ``tracing``."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from pipeline.settings import Settings


def new_provider(settings: Settings, process: str) -> TracerProvider:
    """Of the spans of a process: a share of the traces that begin here, and what others want to be told."""
    role, _, slot = process.rpartition("-")
    return TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.tracing.share)),
        resource=Resource.create({"service.name": f"{settings.app}-{role}", "service.instance.id": slot}),
    )


class PatientOnce(OTLPSpanExporter):
    """A collector that is away holds up the end of a process once, not once for every lot of spans that is left."""

    _ending = _gone = False

    def end(self) -> None:
        """The process ends: a lot that is not taken is the last one to be tried."""
        self._ending = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._gone:
            return SpanExportResult.FAILURE
        result = super().export(spans)
        self._gone = self._ending and result is SpanExportResult.FAILURE
        return result
