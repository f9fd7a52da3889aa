"""What a process tells of itself: structured logs, one line an event, pretty or JSON; and spans, when asked."""

from __future__ import annotations

import logging
import sys
import time

import structlog

from pipeline.log_repeats import Repeats
from pipeline.settings import Settings
from pipeline.tracing.setup import export_traces


def now_ms() -> int:
    """This machine's clock in ms since 1970-01-01 UTC; agents read it, pure code is given it."""
    return time.time_ns() // 1_000_000


def configure_telemetry(settings: Settings, process: str) -> None:
    """Logs and spans of a process that is called so, e.g. ``worker-0``.

    Raises:
        MissingDependencyError: spans are wanted, and can not be told.
    """
    configure_logging(settings, process)
    export_traces(settings, process)


def configure_logging(settings: Settings, process: str) -> None:
    """Send the project's and the libraries' logs to stderr, each line with the process's name."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(Repeats())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("pipeline", "agents", "__main__"):
        logging.getLogger(name).setLevel(level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
