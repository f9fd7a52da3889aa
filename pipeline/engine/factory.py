"""Choosing the engine that the settings name."""

from __future__ import annotations

from pipeline.engine.base import Engine
from pipeline.engine.scripted import ScriptedEngine
from pipeline.settings import EngineName, Settings


def create_engine(settings: Settings) -> Engine:
    """The engine of ``settings.engine.name``, not yet started.

    Raises:
        ModelLoadError: the engine needs a package that is not installed.
        ConfigError: the scripted engine's options are wrong.
    """
    if settings.engine.name is EngineName.SCRIPTED:
        return ScriptedEngine(settings.engine)
    from pipeline.engine.model import require_packages

    require_packages()
    from pipeline.engine.slots import SlotEngine

    return SlotEngine(settings)
