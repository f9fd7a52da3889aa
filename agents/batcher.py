"""The batcher: requests to batches of sample tasks, one lane a priority, and a marker that opens each window.

It only routes: it never waits for a model, so the backlog lives in the lanes. Orders to cancel it routes too, and
what belongs to a conversation waits for its turn there (``agents/conversation.py``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import structlog
from faust.types import EventT
from opentelemetry.util.types import AttributeValue

from agents.canceller import Canceller
from agents.conversation import Conversations
from pipeline import metrics, process_memory
from pipeline.agent_main import run_agent
from pipeline.errors import ConflictingRequestError, PayloadTooLargeError, TallystreamError
from pipeline.events import (
    Batch,
    Control,
    Conversation,
    InferenceRequest,
    Opened,
    Session,
    TaskGroup,
    Turn,
    TurnKind,
)
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source, dead_letter, decode_all
from pipeline.kafka.faust_app import make_app, run_app
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.identify import identify_with
from pipeline.kafka.partition_worker import PartitionWorker, PartitionWorkers
from pipeline.kafka.quarantine import Quarantine
from pipeline.kafka.records import (
    Identity,
    Output,
    Place,
    content_identity,
    opened_identity,
)
from pipeline.kafka.watchdog import watched
from pipeline.scheduling.batch_records import batch_records, task_of
from pipeline.scheduling.batching import Arrivals, BatchPolicy
from pipeline.scheduling.content import content_of
from pipeline.scheduling.expand import expand
from pipeline.scheduling.validate import check_routed, check_size
from pipeline.session_table import turn_record
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_telemetry, now_ms
from pipeline.topics import (
    CONTROL,
    DEAD_LETTERS,
    LANES,
    REQUESTS,
    SAMPLES,
    TURNS,
    lane_of,
)
from pipeline.tracing.spans import Span, SpanKind, after, begin, failed, headers_of, of_request, trace_of

log = structlog.get_logger("agents.batcher")

_MOST_RECORDS = 256
_NOTICED = 0.002


class Batcher(PartitionWorker):
    """Serves one partition of ``requests``: one lane of one shard."""

    def __init__(self, settings: Settings, codec: Codec, place: Place) -> None:
        super().__init__(settings, place)
        self.codec = codec
        self.lane, self.shard = lane_of(place[1], settings.shards), place[1] % settings.shards
        waits = settings.batching
        self._policy = BatchPolicy(waits.max_batch, waits.max_wait_ms / 1000, waits.burst_wait_ms / 1000)
        self._arrivals = Arrivals()

    def open_sink(self, since_ms: int) -> FencedSink:
        lanes = {self.lane, max(self.lane - 1, 0)}
        reach = [(topic, self.shard) for topic in (SAMPLES, DEAD_LETTERS, *(LANES[lane] for lane in lanes))]
        return FencedSink.open(
            self.settings,
            source=self.place,
            since_ms=since_ms,
            reach=reach,
            identify=identify_with(self.codec),
        )

    async def gather(self) -> list[EventT[Any]]:
        events = [await self.queue.get()]
        first_at = time.monotonic()
        if (pause := self.company()) > _NOTICED:
            await asyncio.sleep(pause)
        noted = 0
        while len(events) < _MOST_RECORDS:
            events += self.queued(_MOST_RECORDS - len(events))
            self._arrivals.note(len(events) - noted, time.monotonic())
            noted = len(events)
            closes_at = self._policy.closes_at(waiting=noted, first_at=first_at, arrivals=self._arrivals)
            if (wait := closes_at - time.monotonic()) <= 0:
                break
            try:
                events.append(await asyncio.wait_for(self.queue.get(), wait))
            except TimeoutError:
                break
        return events

    async def handle(self, records: Sequence[Source], emit: Callable[[Iterable[Output]], Any]) -> None:
        outputs: list[Output] = []
        groups: list[tuple[int, TaskGroup]] = []
        markers: list[Opened] = []
        taken: set[Identity] = set()
        asked: dict[Identity, str] = {}
        spans: list[Span] = []
        for record, event in await self.call(decode_all, self.codec, records):
            spans.append(span := _span(record))
            try:
                if isinstance(event, TallystreamError):
                    raise event
                request = check_routed(event, record.partition, self.settings.shards)
                content = content_of(request)
                self._refuse_conflict(request, content, asked)
            except TallystreamError as error:
                failed(span, error.code)
                outputs.append(dead_letter(record, error, stage="batcher", shards=self.settings.shards))
                continue
            expansion = expand(
                request,
                appended_at=record.timestamp,
                now=now_ms(),
                limits=self.settings.limits,
                refusal=_too_large(record),
                trace=after(span),
            )
            span.set_attributes(_attributes(expansion.opened))
            if (refused := expansion.opened.error) is not None:
                failed(span, refused.code)
            fresh = not self.sink.has(opened_identity(request.request_id, request.run))
            if fresh:
                markers.append(expansion.opened)
                outputs.append(self._opened(replace(expansion.opened, content=content)))
            if (session := expansion.opened.session) is None:
                groups += [
                    (lane, rest)
                    for lane, group in expansion.groups
                    if (rest := self._unwritten(group, taken))
                ]
            elif fresh and expansion.groups:
                outputs.append(self._turn(session, expansion.opened, record))
        outputs += batch_records(
            groups,
            shard=self.shard,
            codec=self.codec,
            limits=self.settings.batching,
            now=now_ms(),
            spans=spans,
        )
        await emit(outputs)
        for span in spans:
            span.end()
        for marker in markers:
            metrics.opened(marker)

    def _refuse_conflict(self, request: InferenceRequest, content: str, asked: dict[Identity, str]) -> None:
        """Raise if the id was asked before, also in this gathering, and something else was asked then."""
        names = (request.request_id, request.run)
        opened = opened_identity(*names)
        if opened not in asked and self.sink.has(opened):
            same = any(self.sink.has(content_identity(*names, each)) for each in (content, ""))
        else:
            same = asked.setdefault(opened, content) == content
        if not same:
            raise ConflictingRequestError(
                f"{request.request_id!r} was asked before with other content, which stays as it is: "
                "ask this under an id of its own, or with the next run",
                field="request_id",
            )

    def _unwritten(self, group: TaskGroup, taken: set[Identity]) -> TaskGroup | None:
        """What is neither written nor ``taken`` already in this gathering, where an id may stand twice."""
        names = {task: task_of(group, task.sample_index) for task in group.tasks}
        tasks = tuple(task for task, name in names.items() if name not in taken and not self.sink.has(name))
        taken.update(names.values())
        if len(tasks) == len(group.tasks):
            return group
        return replace(group, tasks=tasks) if tasks else None

    def _opened(self, opened: Opened) -> Output:
        names = (opened.request_id, opened.run)
        identities = (opened_identity(*names), content_identity(*names, opened.content))
        key = opened.request_id.encode()
        value = self.codec.encode(opened)
        return Output(SAMPLES, self.shard, key, value, identities, headers_of(opened.trace))

    def _turn(self, session: Session, opened: Opened, record: Source) -> Output:
        """Its conversation begins it; written with its marker or not at all, so the marker tells of both."""
        turn = Turn(
            user=session.user,
            session=session.session,
            request_id=opened.request_id,
            run=opened.run,
            kind=TurnKind.ASKED,
            at=opened.opened_at,
            deadline_at=opened.deadline_at,
            appended_at=record.timestamp,
            request=record.value,
            trace=opened.trace,
        )
        return turn_record(turn, self.settings.shards, self.codec)


def _span(record: Source) -> Span:
    """Of the batcher's work on one record; told once what it leads to is written."""
    told = {"messaging.destination.name": record.topic, "messaging.kafka.offset": record.offset}
    told["messaging.destination.partition.id"] = str(record.partition)
    return begin("open request", SpanKind.CONSUMER, trace_of(record.headers), attributes=told)


def _attributes(opened: Opened) -> dict[str, AttributeValue]:
    told = of_request(opened.request_id, opened.run)
    told["tallystream.priority"], told["tallystream.mode"] = opened.priority, opened.mode
    told["tallystream.samples"] = opened.expected
    return told


def _too_large(record: Source) -> TallystreamError | None:
    try:
        check_size(len(record.value or b""))
    except PayloadTooLargeError as error:
        return error
    return None


def main() -> None:
    """Run the batcher until it is told to stop."""
    settings = load_settings()
    configure_telemetry(settings, f"batcher-{settings.slot}")
    app = make_app(settings, "batcher")
    process_memory.settle()
    with Quarantine.of(settings, "batcher") as quarantine, watched(settings, "batcher") as ledger:
        codec = make_codec(
            settings,
            writes=(Batch, Opened, Control, Turn, Conversation),
            asking=ledger.waiting(quarantine.let_go),
        )
        workers = PartitionWorkers(
            app,
            quarantine,
            ledger,
            {
                REQUESTS: lambda place: Batcher(settings, codec, place),
                CONTROL: lambda place: Canceller(settings, codec, place),
                TURNS: lambda place: Conversations(settings, codec, place),
            },
        )

        @app.timer(settings.window.sweep_ms / 1000)
        async def serve_waiting_turns() -> None:  # pyright: ignore[reportUnusedFunction]
            """A turn waits no longer than its bound though no record comes."""
            workers.ensure_assigned(TURNS)

        run_app(app, settings)


if __name__ == "__main__":
    run_agent(main)
