"""The server around the application: its address, its patience with slow clients, and how it stops."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pipeline.errors import ConfigError
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_LINGER = 2.0
"""Seconds in which a refused body may still be sent, so that its sender reads the refusal."""
_GOOD_BYE = 5.0
"""Seconds in which calls may end when the process stops."""


@asynccontextmanager
async def served(app: web.Application, settings: Settings) -> AsyncGenerator[str]:
    """Serve while the block runs; gives the address as a URL.

    Raises:
        ConfigError: the address can not be used.
    """
    host, port = settings.gateway.host, settings.gateway.port
    runner = web.AppRunner(
        app,
        access_log=None,
        # aiohttp closes what is silent for so long between calls, or has not sent all headers of one.
        keepalive_timeout=settings.gateway.header_timeout,
        lingering_time=_LINGER,
        shutdown_timeout=_GOOD_BYE,
        auto_decompress=False,  # it would raise beyond every handler's reach, and unpack without a bound
    )
    noise = logging.getLogger("aiohttp.server")
    noise.addFilter(_client_fault)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigError(
                f"TALLYSTREAM_GATEWAY__HOST, TALLYSTREAM_GATEWAY__PORT: can not listen on {host}:{port}: "
                f"{error.strerror}; port 0 takes a free one"
            ) from error
        yield f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        noise.removeFilter(_client_fault)


def _client_fault(record: logging.LogRecord) -> bool:
    """What is no HTTP is one line of the log, not a traceback: anybody can send it."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError):
        log.info("not HTTP", error=type(error).__name__)
        return False
    return True
