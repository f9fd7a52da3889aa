"""The codec that the settings ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from pipeline.errors import DependencyDownError
from pipeline.events import Event
from pipeline.kafka.codec import Codec
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_PAUSE = 0.5


def make_codec(
    settings: Settings, *, writes: Sequence[type[Event]] = (), asking: Callable[[], None] = lambda: None
) -> Codec:
    """Without a registry its client is not even imported: it is slow to import.

    Args:
        writes: an agent's events, registered now; waits for a registry that is away, which costs no membership
            of a group yet. Encoding one of them asks nobody then.
        asking: called before each question to the registry.

    Raises:
        UnknownSchemaError: the registry refuses one of ``writes``.
    """
    if not settings.registry_url:
        return Codec()
    from pipeline.kafka.registry import Registry

    codec = Codec(Registry(settings.registry_url, asking=asking))
    while True:
        try:
            codec.register(writes)
        except DependencyDownError as error:
            log.warning("waiting", code=error.code, error=error.message)
            time.sleep(_PAUSE)
        else:
            return codec
