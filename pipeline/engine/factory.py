"""Choosing the engine that the settings name."""

from __future__ import annotations

from pipeline.engine.base import Engine
from pipeline.engine.http_engine import HttpEngine
from pipeline.engine.scripted import ScriptedEngine
from pipeline.settings import EngineName, Settings


def create_engine(settings: Settings) -> Engine:
    """The engine of ``settings.engine.name``, not yet started.

    Raises:
        ModelLoadError: the engine needs a package that is not installed.
        ConfigError: the options of the scripted engine, or of the one that calls a server, are wrong.
    """
    if settings.engine.name is EngineName.SCRIPTED:
        return ScriptedEngine(settings.engine)
    if settings.engine.name is EngineName.HTTP:
        return HttpEngine(settings)
    from pipeline.engine.model import require_packages

    require_packages()
    if settings.engine.name is EngineName.TRANSFORMERS:
        from pipeline.engine.managed import ManagedEngine

        return ManagedEngine(settings)
    if settings.engine.name is EngineName.VISION:
        from pipeline.engine.vision import VisionEngine

        return VisionEngine(settings)
    from pipeline.engine.slots import SlotEngine

    return SlotEngine(settings)
