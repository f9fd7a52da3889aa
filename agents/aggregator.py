"""The aggregator: samples to results. A window a request, closed by a decided vote, by count, or by time.

The order for each gathering of records, and what a crash after each step leaves behind:

1. results and controls, in one transaction of the fenced sink  (records come again; the sink drops them)
2. the table of windows, durable in its changelog                (records come again; adding is idempotent)
3. the acknowledgement                                           (nothing is left to do)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import structlog
from confluent_kafka import Message
from faust.types import EventT

from pipeline.errors import DecodeError
from pipeline.events import Control, ControlAction, Opened, Progress, ProgressKind, Result, Sample, Status
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source, dead_letter, dead_letter_identities
from pipeline.kafka.faust_app import make_app, run_app
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.partition_worker import PartitionWorker, PartitionWorkers
from pipeline.kafka.progress import ProgressWriter
from pipeline.kafka.records import Identity, Output, result_identity
from pipeline.kafka.transactions import Place
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_logging, now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, RESULTS, SAMPLES, WINDOWS_TABLE, shard_of
from pipeline.window_table import (
    closed_value,
    first_key,
    head_key,
    keys_of,
    request_id_of,
    restore,
    sample_key,
)
from pipeline.windows import WindowBook, WindowKey, is_final

log = structlog.get_logger("agents.aggregator")

_MOST_RECORDS = 500


class Aggregator(PartitionWorker):
    """Serves one partition of ``samples`` and owns the windows of its shard."""

    def __init__(
        self, settings: Settings, codec: Codec, place: Place, table: Any, tell: ProgressWriter
    ) -> None:
        super().__init__(place)
        self.settings, self.codec, self.table, self.tell = settings, codec, table, tell
        self.shard = place[1]
        mine = (
            (key, value)
            for key, value in table.data.items()
            if shard_of(request_id_of(key), settings.shards) == self.shard
        )
        self.windows = WindowBook(restore(mine, codec))

    def open_sink(self, since_ms: int) -> FencedSink:
        reach = [(RESULTS, self.shard), (DEAD_LETTERS, self.shard)]
        return FencedSink.open(
            self.settings, source=self.place, since_ms=since_ms, reach=reach, identify=self._identify
        )

    def since_without_records(self) -> int:
        return self.windows.earliest() or now_ms()

    async def gather(self) -> list[EventT[Any]]:
        events: list[EventT[Any]] = []
        try:
            events.append(await asyncio.wait_for(self.queue.get(), self.settings.window.sweep_ms / 1000))
        except TimeoutError:
            return events
        while not self.queue.empty() and len(events) < _MOST_RECORDS:
            events.append(self.queue.get_nowait())
        return events

    async def handle(
        self, records: Sequence[Source], emit: Callable[[Iterable[Output]], Awaitable[Any]]
    ) -> None:
        outputs: list[Output] = []
        writes: dict[bytes, bytes | None] = {}
        touched: set[WindowKey] = set()
        for record in records:
            self._take(record, outputs, writes, touched)
        now = now_ms()
        touched.update(self.windows.overdue(now))
        results = [result for key in touched for result in self.windows[key].settle(now)]
        for result in results:
            outputs += self._publication(result, now)
        if outputs:
            await emit(outputs)
        for result in results:
            writes |= self._published(result, now)
        writes |= self._expired(now)
        await self._write(writes)
        self._tell(touched, results, now)

    def _take(
        self,
        record: Source,
        outputs: list[Output],
        writes: dict[bytes, bytes | None],
        touched: set[WindowKey],
    ) -> None:
        if record.value is None:
            return
        try:
            event = self.codec.decode(record.value)
        except DecodeError as error:
            log.warning("dead letter", offset=record.offset, code=error.code, error=error.message)
            outputs.append(dead_letter(record, error, stage="aggregator", shards=self.settings.shards))
            return
        if isinstance(event, Opened):
            key = (event.request_id, event.run)
            window = self.windows[key]
            if window.opened is None and window.closed_at is None:
                window.opened = event
                self.windows.watch(key)
                writes[head_key(key)] = record.value
        elif isinstance(event, Sample):
            window = self.windows[event.request_id, event.run]
            if not window.add(event):
                log.info("late or repeated sample", request_id=event.request_id, index=event.sample_index)
                return
            writes[sample_key((event.request_id, event.run), event.sample_index)] = record.value
        else:
            return
        touched.add((event.request_id, event.run))

    def _publication(self, result: Result, now: int) -> Iterable[Output]:
        key = result.request_id.encode()
        identity = (result_identity(result.request_id, result.run, result.revision),)
        yield Output(RESULTS, self.shard, key, self.codec.encode(result), identity)
        if is_final(result) and result.usage.samples_expected > len(result.reasoning):
            decided = Control(result.request_id, result.run, ControlAction.DECIDED, now, result.status)
            yield Output(CONTROL, 0, key, self.codec.encode(decided), identity)

    def _published(self, result: Result, now: int) -> dict[bytes, bytes | None]:
        key = (result.request_id, result.run)
        window = self.windows[key]
        if not is_final(result):
            window.first_published = True
            return {first_key(key): b"1"}
        gone: dict[bytes, bytes | None] = dict.fromkeys(keys_of(key, window))
        window.closed_at, window.opened = now, None
        window.samples.clear()
        self.windows.watch(key)
        return gone | {head_key(key): closed_value(now)}

    def _expired(self, now: int) -> dict[bytes, bytes | None]:
        oldest = now - round(self.settings.window.keep_closed * 1000)
        return {head_key(key): None for key in self.windows.forget(oldest)}

    async def _write(self, writes: dict[bytes, bytes | None]) -> None:
        sent: list[Awaitable[Any]] = []
        for key, value in writes.items():
            if value is None:
                self.table.data.pop(key, None)
            else:
                self.table.data[key] = value
            sent.append(self.table.send_changelog(self.shard, key, value, "raw", "raw"))
        await asyncio.gather(*sent)

    def _tell(self, touched: Iterable[WindowKey], results: Sequence[Result], now: int) -> None:
        for result in results:
            self.tell.state(result.request_id, result.run, result.status, now)
        for key in touched:
            window = self.windows[key]
            verdict = window.verdict()
            if verdict is not None:
                self.tell.write(Progress(*key, ProgressKind.VOTES, now, Status.RUNNING, votes=verdict.votes))

    def _identify(self, message: Message) -> Iterable[Identity]:
        if message.topic() == DEAD_LETTERS:
            yield from dead_letter_identities(message)
            return
        try:
            event = self.codec.decode(message.value() or b"")  # type: ignore[arg-type]
        except DecodeError:
            return  # not ours
        if isinstance(event, Result):
            yield result_identity(event.request_id, event.run, event.revision)


def main() -> None:
    """Run the aggregator until it is told to stop."""
    settings = load_settings()
    configure_logging(settings, f"aggregator-{settings.slot}")
    codec = make_codec(settings)
    app = make_app(settings, "aggregator")
    table: Any = app.Table(WINDOWS_TABLE, partitions=settings.shards, key_type=bytes, value_type=bytes)
    tell = ProgressWriter(settings, codec)
    workers = PartitionWorkers(lambda place: Aggregator(settings, codec, place, table, tell))

    @app.agent(app.topic(SAMPLES, key_serializer="raw", value_serializer="raw"))
    async def aggregate(stream: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        async for event in stream.noack().events():
            await workers.feed(event)

    @app.on_partitions_revoked.connect
    async def forget(*_: Any, **__: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        await workers.drop()

    @app.timer(settings.window.sweep_ms / 1000)
    async def serve_deadlines() -> None:  # pyright: ignore[reportUnusedFunction]
        """Open the workers of owned partitions, so that a window ends though no record comes."""
        if app.rebalancing or not app.consumer.assignment():
            return
        for tp in app.consumer.assignment():
            if tp.topic == SAMPLES:
                workers.ensure((tp.topic, tp.partition))

    run_app(app, settings)


if __name__ == "__main__":
    main()
