"""The view as the gateway asks it: every call runs on a thread, and none blocks the loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from pipeline.errors import DependencyDownError, InvalidRequestError
from pipeline.events import PRIORITIES, Delivery, Sample
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Place
from pipeline.replay.letters import Letter
from pipeline.scheduling.validate import check_run
from pipeline.settings import Settings
from pipeline.store.ends import Ends
from pipeline.store.follower import Follower, is_broken
from pipeline.store.reading import Reading
from pipeline.store.rows import Keeping, Stored
from pipeline.store.tasks import Load, Task, TaskFilter, TaskPage
from pipeline.store.view import View
from pipeline.topics import REQUESTS, declared_topics, request_partition

log = structlog.get_logger(__name__)

_READERS = 4
_T = TypeVar("_T")
Listener = Callable[[Sequence[Stored]], None]


class Store:
    """Follows the topics while it is entered (``async with``).

    Args:
        folder: where the view is kept; no other process may use it.

    Raises:
        ConfigError: the folder can not be used; names the setting.
    """

    def __init__(self, settings: Settings, codec: Codec, folder: Path) -> None:
        gateway = settings.gateway
        keeping = Keeping(round(gateway.result_ttl * 1000), round(gateway.forget_after * 1000))
        topics = declared_topics(settings.shards, settings.app)
        kept_ms = {topic.name: int(topic.config.get("retention.ms", 0)) for topic in topics}
        self._settings = settings
        self._view = View(folder, settings.limits, keeping, kept_ms)
        self._reading = Reading(self._view.connections)
        self._follower = Follower(settings, codec, self._view, told=self._told, moved=self._moved)
        self._threads = ThreadPoolExecutor(_READERS, "store")
        self._ends = Ends(settings)
        self._listeners: list[Listener] = []
        self._waiters: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Store:
        self._loop = asyncio.get_running_loop()
        self._follower.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._follower.stop)
        await self._ends.close()
        await asyncio.to_thread(self._threads.shutdown)
        self._view.close()

    async def task(self, request_id: str) -> Task | None:
        """The newest run of a request, as the view has it now.

        Raises:
            DependencyDownError: the view can not be read, as every call here.
        """
        return await self._read(self._reading.task, request_id) if _can_be(request_id) else None

    async def fresh_task(self, request_id: str) -> Task | None:
        """The same; what the view has not yet, but Kafka had taken before the call, is waited for.

        Raises:
            DependencyDownError: it can not be said within ``catch_up`` seconds whether there is such a task.
        """
        task = await self.task(request_id)
        if task is not None or not _can_be(request_id):
            return task
        shards = self._settings.shards
        ends = await self._ends.now()
        places = [
            (REQUESTS, request_partition(request_id, priority, shards)) for priority in range(PRIORITIES)
        ]
        await self.read_to({place: ends[place] for place in places})
        return await self.task(request_id)

    async def read_to(self, ends: Mapping[Place, int]) -> None:
        """Return when the view has read these partitions to these offsets (the first that need not be read).

        Raises:
            DependencyDownError: it has not within ``catch_up`` seconds.
        """
        moved = asyncio.Event()
        self._waiters.add(moved)  # before the first look, so that no move is missed
        try:
            async with asyncio.timeout(self._settings.gateway.catch_up):
                while any(self._follower.positions.get(place, 0) < end for place, end in ends.items()):
                    await moved.wait()
                    moved.clear()
        except TimeoutError as error:
            why = self._follower.problem or "it has more to read than it can now"
            raise DependencyDownError(f"the view of the topics is behind: {why}") from error
        finally:
            self._waiters.discard(moved)

    async def tasks(self, wanted: TaskFilter, *, after: str | None = None, limit: int = 50) -> TaskPage:
        """Tasks whose results are kept, newest first.

        Raises:
            InvalidRequestError: ``after`` is not the cursor of a page.
        """
        return await self._read(self._reading.tasks, wanted, after, limit)

    async def samples(self, request_id: str, run: int) -> tuple[Sample, ...]:
        """By index."""
        return await self._read(self._reading.samples, request_id, run)

    async def history(self, request_id: str, run: int) -> tuple[Stored, ...]:
        """All records of a run and its callbacks that are kept, by broker's time and place."""
        return await self._read(self._reading.history, request_id, run)

    async def deliveries(self, request_id: str) -> tuple[Delivery, ...]:
        """The newest state of each callback, without its body, oldest first."""
        return await self._read(self._reading.deliveries, request_id)

    async def attempts(self, delivery_id: str) -> tuple[Delivery, ...]:
        """What is known of one callback, oldest first, without bodies."""
        return await self._read(self._reading.attempts, delivery_id)

    async def recent_deliveries(self, limit: int = 50) -> tuple[Delivery, ...]:
        """The newest state of those that were heard of last, without bodies, newest first."""
        return await self._read(self._reading.recent_deliveries, limit)

    async def letters(self, limit: int = 50) -> tuple[Letter, ...]:
        """Dead letters, newest first."""
        return await self._read(self._reading.letters, limit)

    async def waiting_of(self, tenant: str) -> int:
        """Tasks of a tenant that have not ended, as far as the view has read."""
        return self._follower.waiting_of(tenant)

    def load(self) -> Load:
        """What there is to do, as last known; its ``as_of`` says when that was."""
        return self._follower.load

    @property
    def problem(self) -> str | None:
        """Why the view does not move; ``None`` while it does."""
        return self._follower.problem

    def listen(self, listener: Listener) -> None:
        """Have this called with all that is stored from now on: on the follower's thread, after each commit, in order.

        A view that is built anew tells everything again.
        """
        self._listeners.append(listener)

    async def caught_up(self) -> bool:
        """Whether all that was there when the view was begun has been read."""
        return self._follower.caught_up

    async def wait_ready(self) -> None:
        """Return when it has."""
        moved = asyncio.Event()
        self._waiters.add(moved)
        try:
            while not self._follower.caught_up:
                await moved.wait()
                moved.clear()
        finally:
            self._waiters.discard(moved)

    async def _read(self, call: Callable[..., _T], *args: object) -> _T:
        assert self._loop is not None, "the store was not entered"
        try:
            return await self._loop.run_in_executor(self._threads, partial(call, *args))
        except sqlite3.Error as error:
            if is_broken(error):
                self._follower.begin_anew()
            raise DependencyDownError(f"the view can not be read now: {error}") from error

    def _told(self, stored: Sequence[Stored]) -> None:
        for listener in self._listeners:
            try:
                listener(stored)
            except Exception:  # its fault is not the view's
                log.exception("a listener has failed")

    def _moved(self) -> None:
        if self._waiters and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()


def _can_be(request_id: str) -> bool:
    """Whether a request may have such an id; nothing else is ever asked of the file."""
    try:
        check_run(request_id, 0)
        request_id.encode()
    except (InvalidRequestError, UnicodeEncodeError):
        return False
    return True
