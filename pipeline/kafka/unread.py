"""Records that can not be judged yet: the schema registry is away. They wait in order, and all behind them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import Message

from pipeline.errors import DependencyDownError
from pipeline.kafka.clients import value_of

log = structlog.get_logger(__name__)

Look = Callable[[bytes], None]
"""Makes sure that a value can be decoded, or found to be bad, without asking anybody.

Raises ``DependencyDownError`` while that is not so.
"""

_PAUSE = 0.5


class Unread:
    """What was fetched and waits. Never blocks longer than one question to the registry."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._waiting: deque[Message] = deque()
        self._ask_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def readable(self, fetched: Sequence[Message]) -> list[Message]:
        """What can be judged now of all that waits and was fetched, in the order in which it came."""
        self._waiting += fetched
        readable: list[Message] = []
        if time.monotonic() < self._ask_at:
            return readable
        try:
            while self._waiting:
                self._look(value_of(self._waiting[0]))
                readable.append(self._waiting.popleft())
        except DependencyDownError as error:
            self._ask_at = time.monotonic() + _PAUSE
            log.warning("records wait", records=len(self._waiting), code=error.code, error=error.message)
        return readable

    def clear(self) -> None:
        """Forget what waits: it comes again, to whoever owns its partition then."""
        self._waiting.clear()
