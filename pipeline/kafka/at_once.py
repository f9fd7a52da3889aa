"""A coroutine that is run up to its first wait at once: what never waits needs no task."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any


class AtOnce:
    """Begins a coroutine where it stands; awaiting this goes on with it. Raises what the coroutine raises.

    Attributes:
        done: it has ended without a wait, with ``result``; then there is nothing to await.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self.result: Any = None
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration as end:
            self.done, self.result = True, end.value
        else:
            self.done = False

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # a cancellation is the coroutine's to see
                go_on = partial(self._coroutine.throw, error)
            else:
                go_on = partial(self._coroutine.send, sent)
            try:
                waits_for = go_on()
            except StopIteration as end:
                return end.value
