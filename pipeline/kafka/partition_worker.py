"""One worker for each input partition of a Faust agent: gather, write through the fenced sink, then ack.

The order, and what a crash after each step leaves behind:

0. read what the consumer passed over, see     (nothing is committed: it is read again)
   ``passed_over``, and handle it first
1. gather records of the partition, in order   (nothing is acknowledged: they come again)
2. write what they lead to, in one transaction  (they come again; the sink drops what is written)
3. acknowledge them, in order                   (Faust commits the offset some time later, or they
                                                 come again and are dropped again)

An exception never acknowledges. Fenced, or Kafka away: a new sink is opened and the same records are
tried again. Anything else is a bug, and ends the process: its supervisor starts it afresh. A record that
the process died of comes again alone, and after the third death it is parked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from faust.types import EventT

from pipeline.errors import DependencyDownError, FencedError
from pipeline.kafka.company import Traffic, worth_waiting
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.passed_over import passed_over
from pipeline.kafka.quarantine import Part, Quarantine
from pipeline.kafka.records import Identity, Output, Place
from pipeline.ledger import Ledger
from pipeline.settings import Settings
from pipeline.telemetry import now_ms

log = structlog.get_logger(__name__)

_QUEUE = 2_000
_BACKOFF = (0.1, 0.3, 1.0, 3.0)
_FIRST_WITHIN = 2.0
"""Seconds after which a partition that hands over nothing is looked at without it."""
EXIT_CRASHED = 70


_traffic = Traffic()
"""Of this process: its partitions share its processor."""


class PartitionWorker(ABC):
    """Serves one input partition. Subclasses say what is gathered and what it leads to."""

    def __init__(self, settings: Settings, place: Place) -> None:
        self.settings, self.place = settings, place
        self.queue: asyncio.Queue[EventT[Any]] = asyncio.Queue(_QUEUE)
        self._pending: list[EventT[Any]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sink-{place[0]}-{place[1]}")
        self._sink: FencedSink | None = None
        self._since_ms = 0

    @abstractmethod
    def open_sink(self, since_ms: int) -> FencedSink:
        """Open the sink of this partition (blocking)."""

    @abstractmethod
    async def gather(self) -> list[EventT[Any]]:
        """The next records to handle together; may be empty when time alone asks for work."""

    @abstractmethod
    async def handle(self, records: Sequence[Source], emit: Callable[[Iterable[Output]], Any]) -> None:
        """Handle records; everything they lead to goes through ``await emit(outputs)``."""

    async def run(self, group: str, quarantine: Quarantine, ledger: Ledger) -> None:
        """Serve until cancelled.

        Args:
            group: the consumer group whose committed offset says where to begin.
        """
        failures = 0
        prepared = False
        while True:
            try:
                if not prepared:
                    await self.prepare()
                    await self._catch_up(group, quarantine)
                    prepared = True
                if not self._pending:
                    self._pending = await self.gather()
                    _traffic.note(len(self._pending), time.monotonic())
                async for part in self._handled([source_of(event) for event in self._pending], quarantine):
                    self._acknowledge(part)
            except (FencedError, DependencyDownError) as error:
                log.warning("sink failed", place=self.place, code=error.code, error=error.message)
                ledger.waited()
                self._drop_sink()
                await asyncio.sleep(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
                failures += 1
                continue
            failures = 0

    async def _catch_up(self, group: str, quarantine: Quarantine) -> None:
        """Begin where the group has committed, whatever record the consumer hands over first."""
        if not self._pending:
            with contextlib.suppress(TimeoutError):
                self._pending = [await asyncio.wait_for(self.queue.get(), _FIRST_WITHIN)]
        first = self._pending[0].message.offset if self._pending else None
        lots = passed_over(self.settings, group, self.place, first)
        while lot := await self.call(next, lots, None):
            async for part in self._handled(lot, quarantine):
                part.end()

    async def _handled(self, records: Sequence[Source], quarantine: Quarantine) -> AsyncIterator[Part]:
        """Handle records, and tell of each part when it is done."""
        await self._ready(min((record.timestamp for record in records), default=0))
        for part in quarantine.parts(records):
            async with quarantine.handling(part):
                await self._serve(part, quarantine)
            yield part

    async def _serve(self, part: Part, quarantine: Quarantine) -> None:
        async def emit(outputs: Iterable[Output]) -> int:
            part.rest()
            return await self.emit(outputs)

        if part.poison:
            await emit([quarantine.letter(part)])
        else:
            await self.handle(part.records, emit)

    def _acknowledge(self, part: Part) -> None:
        for event in self._pending[: len(part.records)]:
            event.ack()
        del self._pending[: len(part.records)]
        part.end()

    def company(self) -> float:
        """Seconds that are worth waiting for more records: the more came to this process lately, the longer.

        Under load a transaction costs more than the records in it, so fewer and larger ones carry more; a lone
        record waits for nothing. All partitions count, since each has transactions of its own.
        """
        return worth_waiting(_traffic.lately(time.monotonic()))

    def queued(self, most: int) -> Iterator[EventT[Any]]:
        """What waits in the queue now, at most so many."""
        while most > 0 and not self.queue.empty():
            yield self.queue.get_nowait()
            most -= 1

    async def emit(self, outputs: Iterable[Output]) -> int:
        """Write through the sink, off the event loop; returns the number of records written."""
        assert self._sink is not None
        return await self.call(self._sink.emit, list(outputs))

    @property
    def sink(self) -> FencedSink:
        assert self._sink is not None
        return self._sink

    def written(self, identity: Identity) -> bool:
        """Whether the sink knows this to be written; by an older owner, too."""
        return self._sink is not None and self._sink.has(identity)

    async def prepare(self) -> None:  # noqa: B027 - a hook that not every worker needs
        """Called before the first record is gathered; tried again like everything else when it fails."""

    def close(self) -> None:
        self._drop_sink()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _ready(self, oldest_ms: int) -> None:
        """Open the sink, or open it again when a record is older than what was read back."""
        oldest = min((ms for ms in (oldest_ms, self.oldest_open()) if ms), default=now_ms())
        if self._sink is not None and (not oldest_ms or oldest_ms >= self._since_ms):
            self._sink.settled(oldest)
            return
        self._drop_sink()
        self._since_ms = oldest
        self._sink = await self.call(self.open_sink, self._since_ms)

    def oldest_open(self) -> int | None:
        """When the oldest unfinished work began that no record will bring again, in ms, if there is any."""
        return None

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a blocking function on this partition's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def _drop_sink(self) -> None:
        if self._sink is not None:
            self._sink.close()
            self._sink = None


class PartitionWorkers:
    """The workers of the partitions that a Faust app owns now; ``make`` says of which topics."""

    def __init__(
        self,
        app: Any,
        quarantine: Quarantine,
        ledger: Ledger,
        make: Mapping[str, Callable[[Place], PartitionWorker]],
    ) -> None:
        self._app, self._quarantine, self._make = app, quarantine, make
        self._ledger = ledger
        self._workers: dict[Place, tuple[PartitionWorker, asyncio.Task[None]]] = {}
        for topic in make:
            app.agent(app.topic(topic, key_serializer="raw", value_serializer="raw"), name=topic)(self._feed)
        app.on_partitions_revoked.connect(self._drop)
        app.on_rebalance_complete.connect(self._own)

    def ensure_assigned(self, topic: str) -> None:
        """Start the workers of every owned partition of a topic, though no record has come for them."""
        if self._app.rebalancing:
            return
        for place in self._owned():
            if place[0] == topic:
                self._ensure(place)

    def _owned(self) -> list[Place]:
        assignment = self._app.consumer.assignment()
        return [(tp.topic, tp.partition) for tp in assignment if tp.topic in self._make]

    async def _own(self, *_: Any, **__: Any) -> None:
        """Called when the assignment stands: before that no partition is fetched."""
        self._ledger.own(dict.fromkeys(self._owned(), False))

    async def _feed(self, stream: Any) -> None:
        """Hand each record to its partition's worker; waits while that one is full."""
        try:
            async for event in stream.noack().events():
                message = event.message
                await self._ensure((message.topic, message.partition)).queue.put(event)
        except Exception:  # Faust would acknowledge the record that caused it
            log.critical("feeding crashed", topics=list(self._make), exc_info=True)
            os._exit(EXIT_CRASHED)

    def _ensure(self, place: Place) -> PartitionWorker:
        if place not in self._workers:
            worker = self._make[place[0]](place)
            task = asyncio.create_task(
                worker.run(self._app.conf.id, self._quarantine, self._ledger), name=f"{place[0]}[{place[1]}]"
            )
            task.add_done_callback(_die_of_bugs)
            self._workers[place] = (worker, task)
        return self._workers[place][0]

    async def _drop(self, *_: Any, **__: Any) -> None:
        """Forget every partition: what was not acknowledged comes again, to whoever owns it then."""
        self._ledger.own({})
        workers, self._workers = self._workers, {}
        for worker, task in workers.values():
            while not task.done():  # a wait with a time-out can swallow a cancellation
                task.cancel()
                await asyncio.wait([task], timeout=0.5)
            worker.close()
            while worker.queue.qsize():  # the feeder may wait for room in it; what it puts is dropped too
                list(worker.queued(worker.queue.qsize()))
                await asyncio.sleep(0)


def source_of(event: EventT[Any]) -> Source:
    """A Faust event's record as it came."""
    message: Any = event.message
    return Source(
        message.topic,
        message.partition,
        message.offset,
        round(message.timestamp * 1000),
        message.key,
        message.value,
        tuple(_pairs(message.headers)),
    )


def _pairs(headers: Any) -> Iterable[tuple[str, bytes | None]]:
    if not headers:
        return ()
    return headers.items() if hasattr(headers, "items") else headers


def _die_of_bugs(task: asyncio.Task[None]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    log.critical("worker of a partition crashed", partition=task.get_name(), exc_info=error)
    os._exit(EXIT_CRASHED)
