"""The aggregator: samples to results. A window a request, closed by a decided vote, by count, by time or by an order
to cancel, which stands between the samples and is met in their order.

The order for each gathering of records, and what a crash after each step leaves behind:

1. results and what goes with them, in one transaction of the fenced sink  (records come again; the sink drops them)
2. the open windows, durable in their changelog                  (records come again; adding is idempotent)
3. the acknowledgement                                           (nothing is left to do)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import structlog
from faust.types import EventT

from pipeline import metrics, process_memory
from pipeline.agent_main import run_agent
from pipeline.code_checks import ProgramChecker
from pipeline.errors import TallystreamError
from pipeline.events import (
    Batch,
    Control,
    ControlAction,
    Event,
    Opened,
    Progress,
    ProgressKind,
    Result,
    Sample,
    Session,
    Status,
    Turn,
    TurnKind,
)
from pipeline.fitting import fitted
from pipeline.fusion import VoteOptions
from pipeline.kafka.changelog import Changelog
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source, dead_letter, decode_all
from pipeline.kafka.faust_app import make_app, run_app
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.identify import identify_with
from pipeline.kafka.partition_worker import PartitionWorker, PartitionWorkers
from pipeline.kafka.progress import ProgressWriter
from pipeline.kafka.quarantine import Quarantine
from pipeline.kafka.records import Output, Place, result_identity, task_identity
from pipeline.kafka.watchdog import watched
from pipeline.scheduling.review_round import Round, review_groups
from pipeline.session_table import turn_record
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_telemetry, now_ms
from pipeline.topics import (
    CONTROL,
    DEAD_LETTERS,
    LANES,
    LARGEST_RESULT,
    RESULTS,
    SAMPLES,
    windows_changelog,
)
from pipeline.tracing.spans import Span, SpanKind, after, begin, failed, headers_of, of_request
from pipeline.vote_options import vote_options
from pipeline.window_table import WindowStore, restore
from pipeline.windows import Asked, Cancel, WindowBook, WindowKey, final_revision, is_final

log = structlog.get_logger("agents.aggregator")

_MOST_RECORDS = 500
_ON_ITS_HEELS = 0.002
"""Seconds in which Faust hands over what it fetched together: a request's samples then share one write."""

Emit = Callable[[Iterable[Output]], Awaitable[Any]]


class Aggregator(PartitionWorker):
    """Serves one partition of ``samples`` and owns the windows of its shard."""

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        place: Place,
        changelog: Changelog,
        tell: ProgressWriter,
        options: VoteOptions | None = None,
    ):
        super().__init__(settings, place)
        self.options = options
        self.codec, self.tell, self.shard = codec, tell, place[1]
        self.changelog, self.windows = changelog, WindowBook({}, options)
        self.store = WindowStore(changelog, self.shard)
        self.checker = ProgramChecker[WindowKey](settings.code)
        self.unsettled: set[WindowKey] = set()
        self.moved: set[WindowKey] = set()

    def open_sink(self, since_ms: int) -> FencedSink:
        reach = [(topic, self.shard) for topic in (RESULTS, DEAD_LETTERS, *LANES)]
        identify = identify_with(self.codec)
        return FencedSink.open(
            self.settings, source=self.place, since_ms=since_ms, reach=reach, identify=identify
        )

    async def prepare(self) -> None:
        kept = await self.call(self.changelog.read, self.shard)
        self.store = WindowStore(self.changelog, self.shard, kept)
        self.windows = WindowBook(await self.call(restore, kept, self.codec), self.options)
        self.unsettled = set(self.windows.complete())

    def oldest_open(self) -> int | None:
        return self.windows.earliest()

    def close(self) -> None:
        self.checker.close()
        super().close()

    async def gather(self) -> list[EventT[Any]]:
        try:
            first = await asyncio.wait_for(self.queue.get(), self.settings.window.sweep_ms / 1000)
        except TimeoutError:
            return []
        await asyncio.sleep(_ON_ITS_HEELS + self.company())
        return [first, *self.queued(_MOST_RECORDS - 1)]

    async def handle(self, records: Sequence[Source], emit: Emit) -> None:
        outputs: list[Output] = []
        touched = self.unsettled  # what a failed transaction has left
        for record, event in await self.call(decode_all, self.codec, records):
            if isinstance(event, TallystreamError):
                outputs.append(dead_letter(record, event, stage="aggregator", shards=self.settings.shards))
            elif (key := _window_of(event)) is not None and self._take(key, event, record.value):
                touched.add(key)
        now = now_ms()
        touched.update(self.windows.overdue(now))
        touched.update(self._checked())
        # Off the loop: an answer that is hard to read costs a good part of a second.
        results, rounds = await self.call(self._settled, list(touched), now)
        moves = [(key, self.windows[key].state) for key in self.moved]
        moves += [((result.request_id, result.run), result.status) for result in results]
        untold = [(key, state) for key, state in moves if not self._over(key)]
        fresh = [result for result in results if not self._superseded(result)]
        voted = [(result, self._span(result, now)) for result in fresh]
        for result, span in voted:
            outputs += self._publication(result, now, after(span))
        for key, plan in rounds:
            outputs += self._reviews(key, plan, now)
        if outputs:
            await emit(outputs)
        for result, span in voted:
            metrics.result_published(result)
            span.end()
        for result in results:
            self._published(result, now)
        for key, plan in rounds:
            self._asked(key, plan)
        self.unsettled, self.moved = set(), set()
        for key, window in self.windows.forget(now - round(self.settings.window.keep_closed * 1000)):
            self.store.closed(key, window)
        await self.store.flush()
        metrics.OPEN_WINDOWS.labels(str(self.shard)).set(len(self.windows))
        self._tell(untold, touched, now)

    def _settled(
        self, keys: Sequence[WindowKey], now: int
    ) -> tuple[list[Result], list[tuple[WindowKey, Round]]]:
        results: list[Result] = []
        rounds: list[tuple[WindowKey, Round]] = []
        for key in keys:
            window = self.windows[key]
            found = window.settle(now)
            results += found
            if any(is_final(result) for result in found):
                continue
            if (plan := window.round(now)) is not None:
                rounds.append((key, plan))
            elif window.unchecked and window.opened is not None:
                self.checker.submit(key, list(window.samples.values()), window.opened.tests)
        return results, rounds

    def _checked(self) -> Iterator[WindowKey]:
        """Windows whose programs have been run since the last call."""
        for key, checks in self.checker.done():
            if self.windows[key].unchecked:
                self.windows[key].checks = checks
                yield key

    def _reviews(self, key: WindowKey, plan: Round, now: int) -> Iterator[Output]:
        """A batch a review, so that each is written once, whatever of the round an older owner has written."""
        window = self.windows[key]
        assert window.opened is not None
        lane = window.opened.priority
        for group in review_groups(plan, window.opened, window.samples):
            index = group.tasks[0].sample_index
            batch = Batch(f"{key[0]}:{key[1]}:{index}", lane, now, (group,))
            identity = (task_identity(*key, index),)
            yield Output(LANES[lane], self.shard, batch.batch_id.encode(), self.codec.encode(batch), identity)

    def _asked(self, key: WindowKey, plan: Round) -> None:
        asked = Asked.of(plan)
        self.windows[key].asked = asked
        self.store.review_asked(key, asked)
        self.windows.watch_review(key)

    def _take(self, key: WindowKey, event: Event, value: bytes | None) -> bool:
        window = self.windows[key]
        state = window.state
        match event:
            case Opened() if window.opened is None and window.closed_at is None:
                window.opened = event
                self.moved.add(key)
                self.windows.watch(key)
                self.store.opened(key, value or b"")
            case Sample() if window.add(event):
                if window.opened is None:
                    self.windows.watch_orphan(key, now_ms())
                self.store.sample(key, event.sample_index, value or b"")
            case Control() if window.cancel(order := Cancel(event.at, event.reason)):
                if window.opened is None:
                    self.windows.watch(key)
                    self.store.cancelled(key, order)
            case _:
                metrics.LATE_RECORDS.labels(type(event).__name__.lower()).inc()
                log.debug("late or repeated record", request_id=key[0], record=type(event).__name__)
                return False
        if window.state is not state:
            self.moved.add(key)
        return True

    def _superseded(self, result: Result) -> bool:
        """Its records have come again, and it is written; or it is a first answer, and the final one is."""
        key = (result.request_id, result.run)
        late = not is_final(result) and self.written(result_identity(*key, 1))
        return late or self.written(result_identity(*key, result.revision))

    def _span(self, result: Result, now: int) -> Span:
        """Of the vote; told once its result is written."""
        window = self.windows[result.request_id, result.run]
        trace = window.opened.trace if window.opened is not None else ""
        told = of_request(result.request_id, result.run)
        told["tallystream.revision"], told["tallystream.status"] = result.revision, result.status
        told["tallystream.votes"] = [vote.count for vote in result.votes]
        span = begin("vote", SpanKind.INTERNAL, trace, at=now, attributes=told)
        if result.error is not None:
            failed(span, result.error.code)
        return span

    def _publication(self, result: Result, now: int, trace: str) -> Iterable[Output]:
        key = result.request_id.encode()
        identity = (result_identity(result.request_id, result.run, result.revision),)
        value = fitted(result, self.codec.encode, LARGEST_RESULT)
        yield Output(RESULTS, self.shard, key, value, identity, headers_of(trace))
        if not is_final(result):
            return
        window = self.windows[result.request_id, result.run]
        if window.opened is not None and (session := window.opened.session) is not None:
            yield turn_record(_end_of(session, result, now), self.settings.shards, self.codec)
        if window.outstanding:
            decided = Control(result.request_id, result.run, ControlAction.DECIDED, now, result.status)
            # Not the result's identity: of two records of one identity in a call the sink writes the first alone.
            once = (("decided", result.request_id, result.run),)
            yield Output(CONTROL, 0, key, self.codec.encode(decided), once)

    def _published(self, result: Result, now: int) -> None:
        key = (result.request_id, result.run)
        window = self.windows[key]
        if is_final(result):
            self.store.closed(key, window)
            window.published(result, now)
            self.windows.watch(key)
        else:
            window.published(result, now)
            self.store.first_published(key)

    def _tell(
        self, moves: Sequence[tuple[WindowKey, Status]], touched: Iterable[WindowKey], now: int
    ) -> None:
        for key, state in moves:
            self.tell.state(*key, state, now)
        for key in touched:
            window = self.windows.get(key)  # which an old order, that nothing met, has not left
            if window is not None and not self._over(key) and (verdict := window.verdict()) is not None:
                self.tell.write(Progress(*key, ProgressKind.VOTES, now, window.state, votes=verdict.votes))

    def _over(self, key: WindowKey) -> bool:
        """It has ended, or was never opened; or it had ended, and a part of its records has come again."""
        window = self.windows.get(key)
        if window is None or window.opened is None:
            return True
        return self.written(result_identity(*key, final_revision(window.opened)))


def _end_of(session: Session, result: Result, now: int) -> Turn:
    return Turn(
        user=session.user,
        session=session.session,
        request_id=result.request_id,
        run=result.run,
        kind=TurnKind.ENDED,
        at=now,
        status=result.status,
        answer=result.answer,
    )


def _window_of(event: Event) -> WindowKey | None:
    """The window that a record on ``samples`` is for; none is for what does not belong there."""
    if isinstance(event, Opened | Sample) or (
        isinstance(event, Control) and event.action is ControlAction.CANCEL
    ):
        return (event.request_id, event.run)
    return None


def main() -> None:
    """Run the aggregator until it is told to stop."""
    settings = load_settings()
    configure_telemetry(settings, f"aggregator-{settings.slot}")
    options = vote_options(settings)
    app = make_app(settings, "aggregator")
    process_memory.settle()
    changelog = Changelog(settings, windows_changelog(settings.app))
    with Quarantine.of(settings, "aggregator") as quarantine, watched(settings, "aggregator") as ledger:
        codec = make_codec(
            settings,
            writes=(Result, Control, Progress, Batch, Turn),
            asking=ledger.waiting(quarantine.let_go),
        )
        tell = ProgressWriter(settings, codec)
        workers = PartitionWorkers(
            app,
            quarantine,
            ledger,
            {SAMPLES: lambda place: Aggregator(settings, codec, place, changelog, tell, options)},
        )

        @app.timer(settings.window.sweep_ms / 1000)
        async def serve_deadlines() -> None:  # pyright: ignore[reportUnusedFunction]
            """A window ends at its deadline though no record comes."""
            workers.ensure_assigned(SAMPLES)

        run_app(app, settings)


if __name__ == "__main__":
    run_agent(main)
