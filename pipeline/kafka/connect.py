"""The codec that the settings ask for."""

from __future__ import annotations

from pipeline.kafka.codec import Codec
from pipeline.settings import Settings


def make_codec(settings: Settings) -> Codec:
    """Without a registry its client is not even imported: it is slow to import."""
    if not settings.registry_url:
        return Codec()
    from pipeline.kafka.registry import Registry

    return Codec(Registry(settings.registry_url))
