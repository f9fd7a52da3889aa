"""Waiting for a condition, with a bound that only something broken meets."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], seconds: float = 60.0, *, every: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(every)
