"""How an agent's process ends when it can not go on: one line that says why, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from pipeline.errors import ConfigError, DependencyDownError, EngineError, MissingDependencyError

EXIT_UNABLE = 2
_EXPECTED = (ConfigError, MissingDependencyError, DependencyDownError, EngineError)

log = structlog.get_logger("agents")


def run_agent(main: Callable[[], None]) -> None:
    """Run it; what is wrong around it ends it with 2. Anything else is a bug and keeps its traceback."""
    try:
        main()
    except _EXPECTED as error:
        log.critical("ended", code=error.code, error=error.message)
        sys.exit(EXIT_UNABLE)
