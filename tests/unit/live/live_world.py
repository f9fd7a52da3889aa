"""A hub with a store in memory, and connections that remember what they were told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pipeline.events import InferenceRequest, Result, Sample, Status
from pipeline.live.hub import Hub
from pipeline.live.position import Position
from pipeline.live.record import Record
from pipeline.live.stream import Line, Teller
from pipeline.store.rows import Stored
from pipeline.store.tasks import Task


class Memory:
    """The store as the front door's live part asks it; ``put`` is what its follower does."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.records: list[Stored] = []
        self.asked = 0

    def put(self, *records: Record) -> None:
        """Store, then tell; in one step, as the loop sees it."""
        found = [Stored(r.topic, r.partition, r.offset, r.at, r.event) for r in records]
        self.records += found
        self._hub.stored(found)

    async def task(self, request_id: str) -> Task | None:
        self.asked += 1
        mine = [s.event for s in self.records if getattr(s.event, "request_id", None) == request_id]
        asked = [event for event in mine if isinstance(event, InferenceRequest)]
        results = [event for event in mine if isinstance(event, Result)]
        if not asked:
            return None
        samples = sum(isinstance(event, Sample) for event in mine)
        status = results[-1].status if results else Status.RUNNING if samples else Status.PENDING
        return Task(
            asked[-1], status, 0, 0, expected=3, samples=samples, result=results[-1] if results else None
        )

    fresh_task = task

    def listen(self, _: object) -> None:
        """Nobody but the hub is told here."""

    async def history(self, request_id: str, run: int) -> Sequence[Stored]:
        await asyncio.sleep(0)
        mine = [s for s in self.records if getattr(s.event, "request_id", None) == request_id]
        return [stored for stored in mine if getattr(stored.event, "run", None) == run]


class Client:
    """A sink that takes everything, unless ``stuck`` is set."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.beats = 0
        self.gone = False
        self.stuck: asyncio.Event | None = None

    @property
    def idle(self) -> bool:
        return self.stuck is None

    async def write(self, lines: Sequence[Line]) -> None:
        if self.stuck is not None:
            await self.stuck.wait()
        self.lines += lines

    async def beat(self) -> None:
        self.beats += 1

    def names(self) -> list[str]:
        return [line.name for line in self.lines]

    def data(self, name: str) -> list[Any]:
        return [json.loads(line.data) for line in self.lines if line.name == name]


def teller(hub: Hub, store: Memory, heartbeat: float = 15.0) -> Teller:
    return Teller(hub, store, lambda task: {"id": task.request.request_id, "status": task.status}, heartbeat)


async def told(condition: Any, seconds: float = 60.0) -> None:
    """Wait until a condition holds; the bound is one that only something broken meets."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def listen(
    hub: Hub, store: Memory, client: Client, position: Position | None = None, *, request_id: str = "q"
) -> asyncio.Task[Any]:
    task = await store.task(request_id)
    assert task is not None
    before = hub.listeners
    running = asyncio.create_task(teller(hub, store).tell(task, position or Position(), client))
    await told(lambda: hub.listeners > before or running.done())
    return running
