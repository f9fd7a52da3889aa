"""How an agent's process treats its memory."""

from __future__ import annotations

import gc

_YOUNG, _MIDDLE, _OLD = 25_000, 20, 50


def settle() -> None:
    """Leave what is loaded out of every later garbage collection, and collect less often.

    Events are trees of small objects that die by their reference counts; the collector finds next to nothing, and
    by default looks at everything that waits again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
