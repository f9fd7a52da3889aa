"""Hands spans to a collector; needs the extra ``tracing``."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult


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
