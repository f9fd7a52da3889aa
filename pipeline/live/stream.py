"""Telling one connection of one task, from its begin to its end, over whatever it is written to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pipeline.events import Delivery, Progress, Result, Sample
from pipeline.live.feed import Feed, Happened, Tokens, Told
from pipeline.live.hub import Hub
from pipeline.live.listener import Listener, Lost
from pipeline.live.position import Position
from pipeline.live.record import Record
from pipeline.live.words import (
    delivery_data,
    first_answer_data,
    json_line,
    name_of,
    plain_data,
    sample_data,
    votes_data,
)
from pipeline.store.rows import Stored
from pipeline.store.tasks import Task
from pipeline.telemetry import now_ms

_CHUNK = 64 * 1024
"""Bytes after which a write is waited for; together with the transport's own buffer this is all that waits."""
_STUCK = 30.0
"""Seconds in which a write has to be taken by the network."""
_SMALL = 16 * 1024
"""Bytes that the transport takes at once, if it holds none."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event as it is written.

    Attributes:
        id: from where to go on after it; ``None``: from where one could before it.
        data: JSON in one line.
    """

    name: str
    id: str | None
    data: bytes


class Sink(Protocol):
    """A connection that events are written to."""

    @property
    def gone(self) -> bool:
        """Nobody is there any more."""
        ...

    @property
    def idle(self) -> bool:
        """The network has taken all that was written."""
        ...

    async def write(self, lines: Sequence[Line]) -> None:
        """Waits until the network has taken nearly all of it."""
        ...

    async def beat(self) -> None:
        """Say nothing, so that nobody takes the connection for a dead one."""
        ...


class History(Protocol):
    """What the store is asked."""

    async def task(self, request_id: str) -> Task | None: ...

    async def history(self, request_id: str, run: int) -> Sequence[Stored]: ...


class Teller:
    """Tells connections what the hub and the store know."""

    def __init__(self, hub: Hub, store: History, document: Callable[[Task], Any], heartbeat: float) -> None:
        """
        Args:
            document: a task as JSON has it.
            heartbeat: seconds of silence after which a connection is written to.
        """
        self._hub, self._store = hub, store
        self._document_of, self._heartbeat = document, heartbeat

    async def tell(self, task: Task, position: Position, sink: Sink) -> Lost | None:
        """Write the task's events after ``position``, until its end.

        Returns:
            why it was left before that.
        """
        request = task.request
        with self._hub.listening(request.request_id, task.expected) as (listener, remembered):
            feed = Feed(request.run, position)
            # Behind the registration and the task: what it lacks of both comes in, and is known by its offset.
            held = [Record.of(one) for one in await self._store.history(request.request_id, request.run)]
            stored = [record for record in held if record is not None]
            try:
                await self._write(feed.join(task.status, stored, remembered, now_ms()), task, listener, sink)
                spoke = time.monotonic()
                while not feed.ended and listener.lost is None:
                    came, now = await listener.wait(), now_ms()
                    told = [*feed.take(came, now), *feed.tick(now)]
                    if told:
                        await self._write(told, task, listener, sink)
                        spoke = time.monotonic()
                    elif time.monotonic() - spoke >= self._heartbeat:
                        async with listener.writing(_STUCK):
                            await sink.beat()
                        spoke = time.monotonic()
                    if sink.gone:
                        listener.lose(Lost.LEFT)
            except TimeoutError:
                listener.lose(Lost.SLOW)
            except ConnectionError:
                listener.lose(Lost.LEFT)
            return listener.lost

    async def _write(self, told: Iterable[Told], task: Task, listener: Listener, sink: Sink) -> None:
        lines: list[Line] = []
        size = 0
        for one in told:
            line = Line(name_of(one), _id_of(one), await self._data(one, task))
            lines.append(line)
            size += len(line.data)
            if size >= _CHUNK:
                async with listener.writing(_STUCK):
                    await sink.write(lines)
                lines, size = [], 0
        if lines and size < _SMALL and sink.idle:
            await sink.write(lines)
        elif lines:
            async with listener.writing(_STUCK):
                await sink.write(lines)

    async def _data(self, told: Told, task: Task) -> bytes:
        if not isinstance(told, Happened):
            return plain_data(told)
        record = told.record
        if record.data is None:
            record.data = await self._made(record, task)
        return record.data

    async def _made(self, record: Record, task: Task) -> bytes:
        match record.event:
            case Sample() as sample:
                return sample_data(sample)
            case Delivery() as delivery:
                return delivery_data(delivery)
            case Progress() as progress:
                return votes_data(progress.votes, self._hub.expected(progress.request_id))
            case Result() as result if not result.status.terminal:
                return first_answer_data(result)
            case Result() as result:
                if record.making is None:
                    record.making = asyncio.ensure_future(self._document(record, result, task))
                return await asyncio.shield(record.making)
            case _:
                raise AssertionError(f"a {type(record.event).__name__} is told to nobody")

    async def _document(self, record: Record, result: Result, task: Task) -> bytes:
        """The task as it is asked for at any other time; with this result, if the view has gone on."""
        found = await self._store.task(result.request_id)
        if found is None or found.result != result:
            found = replace(
                task, status=result.status, result=result, finished_at=record.at, updated_at=record.at
            )
        return json_line(self._document_of(found))


def _id_of(told: Told) -> str | None:
    return str(told.position) if isinstance(told, Tokens | Happened) else None
