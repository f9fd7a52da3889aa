"""Tasks that this gateway lets in and that its view does not show yet, so that a burst can not slip past a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from pipeline.events import InferenceRequest
from pipeline.store.rows import Stored
from pipeline.topics import REQUESTS

_FORGOTTEN_AFTER = 60_000
"""ms. The view tells only of the first record of an id, which may have been another gateway's, before this one's."""


class Arrivals:
    """Lives on the event loop.

    Args:
        clock: ms.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._arrived: dict[str, tuple[str, int]] = {}
        self._count: Counter[str] = Counter()

    def __len__(self) -> int:
        self._age()
        return len(self._arrived)

    def of(self, tenant: str) -> int:
        self._age()
        return self._count[tenant]

    @contextmanager
    def arriving(self, request: InferenceRequest) -> Generator[None]:
        """Count a request from now until the view shows it, or until the block fails."""
        self._forget(request.request_id)
        self._arrived[request.request_id] = request.tenant, self._clock()
        self._count[request.tenant] += 1
        try:
            yield
        except BaseException:
            self._forget(request.request_id)
            raise

    def seen(self, stored: Sequence[Stored]) -> None:
        """The view shows these."""
        for each in stored:
            if each.topic == REQUESTS and isinstance(each.event, InferenceRequest):
                self._forget(each.event.request_id)

    def _age(self) -> None:
        """The dictionary is in the order of arrival."""
        oldest = self._clock() - _FORGOTTEN_AFTER
        while self._arrived and next(iter(self._arrived.values()))[1] < oldest:
            self._forget(next(iter(self._arrived)))

    def _forget(self, request_id: str) -> None:
        arrived = self._arrived.pop(request_id, None)
        if arrived is not None:
            self._count[arrived[0]] -= 1
            if not self._count[arrived[0]]:
                del self._count[arrived[0]]
