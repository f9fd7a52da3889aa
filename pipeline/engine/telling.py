"""Telling a listener; what it raises is logged and changes nothing."""

from __future__ import annotations

import structlog

from pipeline.engine.base import Completion, EngineListener, TaskKey

_log = structlog.get_logger(__name__)


def tell_tokens(listener: EngineListener, key: TaskKey, piece: str) -> None:
    if not piece:
        return
    try:
        listener.tokens(key, piece)
    except Exception:
        _log.exception("listener failed", key=key)


def tell_done(listener: EngineListener, completion: Completion) -> None:
    try:
        listener.done(completion)
    except Exception:
        _log.exception("listener failed", key=completion.key)
