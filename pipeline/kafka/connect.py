"""The codec that the settings ask for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from pipeline.errors import DependencyDownError
from pipeline.events import Event
from pipeline.kafka.codec import Codec
from pipeline.settings import Settings

_T = TypeVar("_T")


log = structlog.get_logger(__name__)

_PAUSE = 0.5


class PatientCodec(Codec):
    """Waits for a registry that is away. For threads that have nothing better to do; blocks."""

    def encode(self, event: Event) -> bytes:
        return self._wait(lambda: super(PatientCodec, self).encode(event))

    def decode(self, data: bytes) -> Event:
        return self._wait(lambda: super(PatientCodec, self).decode(data))

    def _wait(self, call: Callable[[], _T]) -> _T:
        while True:
            try:
                return call()
            except DependencyDownError as error:
                log.warning("waiting", code=error.code, error=error.message)
                time.sleep(_PAUSE)


def make_codec(settings: Settings, *, patient: bool = False) -> Codec:
    """Without a registry its client is not even imported: it is slow to import."""
    codec = PatientCodec if patient else Codec
    if not settings.registry_url:
        return codec()
    from pipeline.kafka.registry import Registry

    return codec(Registry(settings.registry_url))
