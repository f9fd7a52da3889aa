"""The batcher's third stream: turns of conversations, from ``turns`` to the lanes, each after those before it.

What a partition's owner knows is what ``sessions`` says: it is read back whole when the sink is opened, after older
owners were fenced, and written in one transaction with the batches of the turns that begin. So of a crash, at
whatever step, either nothing is left or all; a word that comes again stands behind ``Conversation.through``.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from faust.types import EventT

from pipeline.errors import DecodeError, TallystreamError, WrongPartitionError
from pipeline.events import Control, ControlAction, Event, InferenceRequest, TaskGroup, Turn, TurnKind
from pipeline.kafka.changelog import latest
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source, dead_letter, decode_all
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.identify import identify_with
from pipeline.kafka.partition_worker import PartitionWorker
from pipeline.kafka.records import Output, Place
from pipeline.scheduling.batch_records import batch_records
from pipeline.scheduling.conversation import (
    Talk,
    Waiting,
    asked,
    begin,
    ended,
    is_forgotten,
    new_talk,
    next_at,
)
from pipeline.scheduling.expand import expand
from pipeline.session_table import SessionKey, kept_records, request_of, restored
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import DEAD_LETTERS, SAMPLES, SESSIONS, TURNS, session_key, session_shard, shard_of
from pipeline.tracing.spans import Span, bounded

_MOST_RECORDS = 256

Emit = Callable[[Iterable[Output]], Awaitable[Any]]
_Word = tuple[Turn, InferenceRequest | None]


class Conversations(PartitionWorker):
    """Serves one partition of ``turns`` and owns the conversations on it."""

    def __init__(self, settings: Settings, codec: Codec, place: Place) -> None:
        super().__init__(settings, place)
        self.codec, self.shard = codec, place[1]
        self.talks: dict[SessionKey, Talk] = {}
        self._due: list[tuple[int, SessionKey]] = []

    def open_sink(self, since_ms: int) -> FencedSink:
        sink = FencedSink.open(
            self.settings,
            source=self.place,
            since_ms=since_ms,
            reach=[(DEAD_LETTERS, self.shard)],
            identify=identify_with(self.codec),
        )
        try:
            self.restore(latest(self.settings, (SESSIONS, self.shard)))
        except BaseException:
            sink.close()
            raise
        return sink

    def restore(self, kept: dict[bytes, bytes]) -> None:
        """Know what ``sessions`` holds, and nothing else."""
        self.talks = restored(kept, self.codec)
        self._due = [(next_at(talk, self.settings.conversation), key) for key, talk in self.talks.items()]
        heapq.heapify(self._due)

    async def gather(self) -> list[EventT[Any]]:
        if self._sink is None:  # opening it says what waits
            return []
        pause = (self._due[0][0] - now_ms()) / 1000 if self._due else None
        try:
            first = await asyncio.wait_for(self.queue.get(), pause)
        except TimeoutError:
            return []
        await asyncio.sleep(self.company())
        return [first, *self.queued(_MOST_RECORDS - 1)]

    async def handle(self, records: Sequence[Source], emit: Emit) -> None:
        """What fails here is forgotten with the sink, and comes again."""
        before: dict[SessionKey, Talk | None] = {}
        outputs: list[Output] = []
        for record, told in await self.call(self._read, records):
            if isinstance(told, DecodeError):
                outputs.append(dead_letter(record, told, stage="batcher", shards=self.settings.shards))
                continue
            turn, request = told
            key = session_key(turn.user, turn.session)
            before.setdefault(key, self.talks.get(key))
            outputs += self._told(key, turn, request, record)
        now = now_ms()
        for key in self._overdue(now):
            before.setdefault(key, self.talks[key])
        groups: dict[int, list[tuple[int, TaskGroup]]] = {}
        spans: list[Span] = []
        for key in before:
            for shard, group in self._begun(key, now):
                groups.setdefault(shard, []).append(group)
        for shard, begun in groups.items():
            outputs += batch_records(
                begun, shard=shard, codec=self.codec, limits=self.settings.batching, now=now, spans=spans
            )
        for key, talk in before.items():
            outputs += kept_records(key, talk, self.talks.get(key), self.shard, self.codec)
        if outputs:
            await emit(outputs)
        for span in spans:
            span.end()

    def _read(self, records: Sequence[Source]) -> list[tuple[Source, _Word | DecodeError]]:
        """Each record's turn, and what it asks; or why it is none. Blocking, where a registry is asked."""
        words: list[tuple[Source, _Word | DecodeError]] = []
        for record, event in decode_all(self.codec, records):
            try:
                words.append((record, self._checked(event)))
            except DecodeError as error:
                words.append((record, error))
        return words

    def _checked(self, event: Event | TallystreamError) -> _Word:
        if isinstance(event, DecodeError):
            raise event
        if not isinstance(event, Turn):
            raise DecodeError(f"a {type(event).__name__} on {TURNS}")
        wanted = session_shard(event.user, event.session, self.settings.shards)
        if wanted != self.shard:
            raise WrongPartitionError(f"a turn of partition {wanted} on {self.shard}")
        return event, request_of(event, self.codec) if event.kind is TurnKind.ASKED else None

    def _told(
        self, key: SessionKey, turn: Turn, request: InferenceRequest | None, record: Source
    ) -> Iterator[Output]:
        limits = self.settings.conversation
        talk = self.talks.get(key) or new_talk(turn.user, turn.session)
        if request is None:
            self.talks[key] = ended(talk, turn, record.offset, limits)
            return
        self.talks[key], taken = asked(talk, Waiting(record.offset, turn, request), limits)
        if not taken:
            yield self._refusal(turn)

    def _begun(self, key: SessionKey, now: int) -> Iterator[tuple[int, tuple[int, TaskGroup]]]:
        """Let begin what can; yields each group with its shard and its lane."""
        limits = self.settings.conversation
        talk, begun = begin(self.talks[key], now, limits)
        if is_forgotten(talk, now, limits):
            del self.talks[key]
        else:
            self.talks[key] = talk
            heapq.heappush(self._due, (next_at(talk, limits), key))
        for turn, request in begun:
            expansion = expand(
                request,
                appended_at=turn.appended_at,
                now=now,
                limits=self.settings.limits,
                trace=bounded(turn.trace),
            )
            shard = shard_of(turn.request_id, self.settings.shards)
            yield from ((shard, group) for group in expansion.groups)

    def _overdue(self, now: int) -> Iterator[SessionKey]:
        """Conversations that time asks for; a moment that is past may have been put off meanwhile."""
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            if key in self.talks and next_at(self.talks[key], self.settings.conversation) <= now:
                yield key

    def _refusal(self, turn: Turn) -> Output:
        """Its window is open already and ends by this, as by any other order to cancel."""
        most = self.settings.conversation.max_waiting
        reason = f"{most} turns of its session wait already"
        order = Control(turn.request_id, turn.run, ControlAction.CANCEL, turn.at, reason)
        shard = shard_of(turn.request_id, self.settings.shards)
        return Output(SAMPLES, shard, turn.request_id.encode(), self.codec.encode(order))
