"""One record of a task as all its listeners share it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pipeline.events import Delivery, InferenceRequest, Opened, Progress, Result, Sample
from pipeline.store.rows import Stored

Heard = InferenceRequest | Opened | Sample | Result | Delivery | Progress
"""What happens to a task, as the topics tell it."""


@dataclass(slots=True)
class Record:
    """
    Attributes:
        at: ms, the broker's.
        data: of the event that it becomes, once somebody needed that: made once, for every listener.
        making: what makes it, while it has to be waited for.
    """

    topic: str
    partition: int
    offset: int
    at: int
    event: Heard
    data: bytes | None = None
    making: asyncio.Future[bytes] | None = None

    @classmethod
    def of(cls, stored: Stored) -> Record | None:
        """``None`` for what tells nothing of a task."""
        event = stored.event
        if not isinstance(event, Heard):
            return None
        return cls(stored.topic, stored.partition, stored.offset, stored.at, event)
