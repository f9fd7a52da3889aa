"""Who listens to what: hands each record of a task to the connections that are told of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline.events import InferenceRequest, Opened, Progress, Result
from pipeline.live.feed import Remembered
from pipeline.live.listener import Listener, Lost
from pipeline.live.record import Record
from pipeline.live.ring import Rings
from pipeline.store.rows import Stored
from pipeline.topics import shard_of

_RING = 256 * 1024
_RINGS = 64 * 1024 * 1024
_AT_ONCE = 200
"""Records handed on in one turn of the loop, so that those who are told can write between two lots."""
_MUCH = 5_000
_KEPT = 15.0
"""Seconds for which a task's progress is remembered after its end, for who lost the connection just then."""
_SILENT = 3600.0
"""Seconds after which a task of which nothing was heard is forgotten; the topic keeps no more either."""
_EVERYTHING = 2**62
_LOOK = 1.0
"""Seconds after which a connection that is gone is noticed, though nothing is written to it."""
_SWEEP = 5.0


@dataclass(slots=True)
class _Channel:
    """A task that runs, or that somebody listens to."""

    listeners: list[Listener] = field(default_factory=list[Listener])
    expected: int | None = None
    ended: bool = False
    forget_at: float = 0.0


class Hub:
    """Everything but ``offer`` and ``wait_for_room`` is called on the loop.

    Attributes:
        dropped: listeners that were too slow, so far.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        listener_queue: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop, self._most, self._clock = loop, listener_queue, clock
        self._lock = threading.Lock()
        self._inbox: deque[Record] = deque()
        self._draining = False
        self._room = threading.Condition(self._lock)
        self._channels: dict[str, _Channel] = {}
        self._rings = Rings(_RINGS, _RING)
        self._lost_to: dict[int, int] = {}
        self._complete_from: Mapping[int, int] = {}
        self._sweep_at = clock() + _SWEEP
        self._ticker = loop.call_later(_LOOK, self._tick)
        self._open: set[Listener] = set()
        self._closed = False
        self.dropped = 0

    @property
    def hears(self) -> bool:
        """Whether it is known from where on everything is heard."""
        return bool(self._complete_from)

    @property
    def listeners(self) -> int:
        return len(self._open)

    @property
    def tasks(self) -> int:
        """Those that run, or ended just now, or are listened to."""
        return len(self._channels)

    def begun(self, progress: Mapping[int, int], requests: Mapping[int, int]) -> None:
        """Say from where on everything is heard.

        Args:
            progress: the first offset that is heard of each partition of ``progress``.
            requests: an offset of each partition of ``requests``: what is asked there or later was not begun
                before that.
        """
        self._lost_to = {partition: offset - 1 for partition, offset in progress.items()}
        self._complete_from = requests

    def stored(self, records: Sequence[Stored]) -> None:
        """What the view has stored; of its listeners' kind, and called on its thread."""
        found = (Record.of(one) for one in records)
        self.offer([record for record in found if record is not None])

    def offer(self, records: Sequence[Record]) -> None:
        """Hand over what was read; called on the thread that has read it, and does not wait."""
        wanted = [record for record in records if self._concerns(record)]
        if not wanted:
            return
        with self._lock:
            self._inbox.extend(wanted)
            if self._draining or self._closed:
                return
            self._draining = True
        self._loop.call_soon_threadsafe(self._drain)

    def wait_for_room(self, timeout: float) -> None:
        """Wait, on a thread that can, while the loop has much to hand on; at most so many seconds."""
        with self._lock:
            self._room.wait_for(lambda: len(self._inbox) < _MUCH or self._closed, timeout)

    @contextmanager
    def listening(self, request_id: str, expected: int | None) -> Generator[tuple[Listener, Remembered]]:
        """Hear of a task while the block lasts, and what is left of what it told before.

        Args:
            expected: its samples, if that is known.
        """
        channel = self._channels.setdefault(request_id, _Channel())
        channel.expected = expected if channel.expected is None else channel.expected
        listener = Listener(self._most)
        channel.listeners.append(listener)
        self._open.add(listener)
        if self._closed:
            listener.lose(Lost.CLOSING)
        try:
            yield listener, self.remembered(request_id)
        finally:
            self._open.discard(listener)
            channel.listeners.remove(listener)
            self.dropped += listener.lost is Lost.SLOW
            if not channel.listeners and self._rings.get(request_id) is None:
                self._channels.pop(request_id, None)

    def expected(self, request_id: str) -> int | None:
        """How many samples a task that somebody listens to is to have, if that is known."""
        channel = self._channels.get(request_id)
        return channel.expected if channel else None

    def close(self) -> None:
        """Let everybody go, and hear of nothing more."""
        with self._lock:
            self._closed = True
            self._inbox.clear()
            self._room.notify_all()
        self._ticker.cancel()
        for listener in list(self._open):
            listener.lose(Lost.CLOSING)

    def _concerns(self, record: Record) -> bool:
        """Asked on other threads: who comes to listen later finds in the store what is not handed on now."""
        event = record.event
        return isinstance(event, Progress) or event.request_id in self._channels or self._begins(record)

    def _begins(self, record: Record) -> bool:
        """All progress of what it asks is heard."""
        begin = self._complete_from.get(record.partition)
        return isinstance(record.event, InferenceRequest) and begin is not None and record.offset >= begin

    def _drain(self) -> None:
        with self._lock:
            lot = [self._inbox.popleft() for _ in range(min(_AT_ONCE, len(self._inbox)))]
            self._draining = bool(self._inbox)
            if self._draining:
                self._loop.call_soon(self._drain)
            self._room.notify_all()
        for record in lot:
            self._take(record)

    def _take(self, record: Record) -> None:
        event, now = record.event, self._clock()
        if (channel := self._channels.get(event.request_id)) is None:
            if not (isinstance(event, Progress) or self._begins(record)):
                return
            channel = self._channels[event.request_id] = _Channel(forget_at=now + _SILENT)
        match event:
            case InferenceRequest():
                channel.ended, channel.forget_at = False, now + _SILENT
                if self._begins(record):
                    self._rings.open(event.request_id, -1)
            case Progress():
                if not channel.ended:
                    channel.forget_at = now + _SILENT
                    self._rings.open(event.request_id, self._may_miss(record.partition))
                    self._rings.add(event.request_id, record)
            case Opened():
                channel.expected = event.expected
            case Result() if event.status.terminal:
                channel.ended, channel.forget_at = True, now + _KEPT
            case _:
                pass
        for listener in channel.listeners:
            listener.put(record)

    def _may_miss(self, partition: int) -> int:
        """Offset of the last record of a task on ``progress`` that is not known, if nothing else is known of it."""
        return self._lost_to.get(partition, _EVERYTHING)

    def remembered(self, request_id: str) -> Remembered:
        """What is left of a task's progress."""
        if (ring := self._rings.get(request_id)) is not None:
            return ring.remembered()
        partition = shard_of(request_id, max(len(self._lost_to), 1))
        return Remembered((), self._may_miss(partition), None)

    def sweep(self) -> None:
        """Forget what has ended, and what nothing is heard of; done every few seconds."""
        now = self._clock()
        for request_id, channel in list(self._channels.items()):
            if now >= channel.forget_at:
                if (ring := self._rings.drop(request_id)) is not None:
                    self._note_loss(request_id, ring.through)
                if not channel.listeners:
                    del self._channels[request_id]

    def _tick(self) -> None:
        """One timer for all: a thousand listeners with one each would be a good part of a core."""
        for listener in self._open:
            listener.look()
        if self._clock() >= self._sweep_at:
            self.sweep()
            self._sweep_at = self._clock() + _SWEEP
        self._ticker = self._loop.call_later(_LOOK, self._tick)

    def _note_loss(self, request_id: str, through: int) -> None:
        partition = shard_of(request_id, max(len(self._lost_to), 1))
        self._lost_to[partition] = max(self._may_miss(partition), through)
