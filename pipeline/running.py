"""Where a pipeline of this machine runs, so that other commands find it without being told."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.settings import Settings

_CARRIED = ("bootstrap", "registry_url", "app", "shards")


@contextmanager
def announced(settings: Settings) -> Generator[None]:
    """Announce a pipeline while it runs; the announcement of a process that died is ignored."""
    path = _path(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    note = {name: getattr(settings, name) for name in _CARRIED} | {"pid": os.getpid()}
    path.write_text(json.dumps(note))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read_running(settings: Settings) -> dict[str, Any] | None:
    """The settings that differ for the pipeline that runs here, or ``None`` when none does."""
    try:
        note: dict[str, Any] = json.loads(_path(settings).read_text())
        os.kill(note.pop("pid"), 0)
    except (OSError, ValueError, KeyError):
        return None
    return note


def _path(settings: Settings) -> Path:
    return settings.home / "running.json"
