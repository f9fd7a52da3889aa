"""Tasks that this gateway lets in and that its view does not show yet, so that a burst can not slip past a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from pipeline.events import InferenceRequest
from pipeline.store.rows import Stored
from pipeline.topics import REQUESTS


class Arrivals:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self._tenants: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._tenants)

    def of(self, tenant: str) -> int:
        return self._count[tenant]

    @contextmanager
    def arriving(self, request: InferenceRequest) -> Generator[None]:
        """Count a request from now until the view shows it, or until the block fails."""
        self._tenants[request.request_id] = request.tenant
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

    def _forget(self, request_id: str) -> None:
        tenant = self._tenants.pop(request_id, None)
        if tenant is not None:
            self._count[tenant] -= 1
            if not self._count[tenant]:
                del self._count[tenant]
