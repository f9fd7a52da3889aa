"""One line for what a library says again and again, as Kafka's clients do while a broker is away."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

_LIBRARIES = ("aiokafka", "faust", "mode", "opentelemetry", "rdkafka")
_NUMBERS = re.compile(r"\d+")
_MOST_KINDS = 256


@dataclass(slots=True)
class _Kind:
    shown_at: float
    hidden: int = 0


class Repeats(logging.Filter):
    """Lets a library's message through once in a while; the next one tells how many were left out.

    Messages are alike when they differ in numbers only.

    Args:
        every: seconds between two that are alike.
        clock: monotonic, in seconds.
    """

    def __init__(self, every: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every, self._clock = every, clock
        self._kinds: dict[tuple[str, int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in _LIBRARIES:
            return True
        message, now = record.getMessage(), self._clock()
        name = (record.name, record.levelno, _NUMBERS.sub("#", message))
        kind = self._kinds.get(name)
        if kind is not None and now < kind.shown_at + self._every:
            kind.hidden += 1
            return False
        if kind is not None and kind.hidden:
            record.msg, record.args = f"{message} (and {kind.hidden} more like it)", None
        self._kinds.pop(name, None)
        self._kinds[name] = _Kind(now)
        if len(self._kinds) > _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        return True
