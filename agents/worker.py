"""The worker: batches to samples. Picks tasks from the lanes by weight and publishes each sample as it ends.

One thread talks to Kafka and keeps polling; the engine draws on its own. A sample and the progress it
stands for are committed together, so a successor draws again only what was never published.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

import structlog
from confluent_kafka import Message

from pipeline import metrics, process_memory
from pipeline.agent_main import run_agent
from pipeline.circuit_breaker import BreakerPolicy
from pipeline.control import ControlReader
from pipeline.engine.base import Completion, Engine, TaskKey
from pipeline.engine.factory import create_engine
from pipeline.errors import DecodeError, EngineError, TallystreamError
from pipeline.events import Batch, Event, Progress, Sample
from pipeline.fitting import fitted_sample
from pipeline.kafka.codec import Codec
from pipeline.kafka.company import worth_waiting
from pipeline.kafka.connect import make_codec
from pipeline.kafka.crash_journal import CrashJournal
from pipeline.kafka.dead_letters import Source, dead_letter, decode_record
from pipeline.kafka.progress import ProgressWriter, TokenStream
from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.kafka.watchdog import watched
from pipeline.ledger import Ledger
from pipeline.scheduling.answer_cache import AnswerCache
from pipeline.scheduling.convert import generation_task, sample_of
from pipeline.scheduling.desk import TaskDesk
from pipeline.scheduling.engine_circuit import EngineCircuit, is_fault
from pipeline.scheduling.sample_span import begin_sample_span, end_sample_span
from pipeline.scheduling.unpack import poison_error, poisoned, unpack
from pipeline.scheduling.waiting import Assigned
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_telemetry, now_ms
from pipeline.topics import LANES, LARGEST_SAMPLE, MOST_TASKS_IN_BATCH, SAMPLES, shard_of
from pipeline.tracing.spans import Span, after, headers_of

log = structlog.get_logger("agents.worker")

_LONGEST_NAMES = 1_024
_BUSY_POLL, _IDLE_POLL = 0.005, 0.1


class Worker:
    """Serves the six lanes of its shards with one engine."""

    def __init__(
        self, settings: Settings, codec: Codec, engine: Engine, journal: CrashJournal, ledger: Ledger
    ) -> None:
        self._settings, self._codec, self._engine, self._journal = settings, codec, engine, journal
        self._ledger = ledger
        self._name = f"{settings.app}-worker-{settings.slot}"
        lanes = settings.worker
        self._desk = TaskDesk(
            lanes.quotas, max_lane_wait=lanes.max_lane_wait, tenant_weights=lanes.tenant_weights
        )
        self._circuit = EngineCircuit(
            BreakerPolicy(settings.engine.breaker_failures, settings.engine.breaker_wait)
        )
        self._answers = AnswerCache(lanes.cache_bytes, lanes.cache_ttl)
        self._ended: SimpleQueue[Completion] = SimpleQueue()
        self._parked: list[tuple[Output, Finished]] = []
        self._publish_at = 0.0
        self._tokens = TokenStream(ProgressWriter(settings, codec))
        self._control = ControlReader(settings, codec)
        self._consumer = TransactionalConsumer(
            settings, role="worker", topics=LANES, listener=self, look=codec.look
        )

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set."""
        try:
            while not stop.is_set():
                for message in self._consumer.poll(_BUSY_POLL if self._desk.busy else _IDLE_POLL):
                    self._take(message)
                for request, at in self._control.drain():
                    self._cancel(self._desk.decide(request, at))
                self._begin()
                self._give_up()
                if time.monotonic() >= self._publish_at:
                    self._publish()
                self._consumer.hold(self._full())
                self._ledger.own(self._consumer.holding)
                self._tokens.flush(now_ms())
        finally:
            self._publish()
            self._consumer.close()
            self._control.close()

    def tokens(self, key: TaskKey, text: str) -> None:
        """On the engine's thread."""
        self._ledger.worked()
        self._tokens.add(key, text)

    def done(self, completion: Completion) -> None:
        """On the engine's thread."""
        if not is_fault(completion):
            self._ledger.worked()  # else an engine that only fails would look alive to the watchdog
        self._tokens.finished(completion.key)
        self._ended.put(completion)

    def assigned(self, places: Sequence[Place]) -> None:
        self._cancel(self._desk.keep(places))

    def revoking(self) -> None:
        self._publish()

    def rewound(self, places: Sequence[Place]) -> None:
        self._ledger.waited()
        self.dropped(places)

    def dropped(self, places: Sequence[Place]) -> None:
        self._desk.drop(set(places))
        self._parked.clear()

    def _take(self, message: Message) -> None:
        place, source = place_of(message), Source.of(message)
        if message.value() is None:
            self._consumer.track(message, 0)
            return
        try:
            batch = _checked(decode_record(self._codec, source), place[0])
        except DecodeError as error:
            self._consumer.track(message, 1)
            self._park(source, error, Finished(place, source.offset, 0))
            return
        tasks = unpack(batch, source, self._journal.deaths)
        done = self._consumer.track(message, len(tasks))
        poison: list[Assigned] = []
        for assigned in tasks:
            if done >> assigned.finished.task & 1:
                self._desk.through(assigned.key)
            elif assigned.poison:
                self._desk.refuse(assigned, poisoned(assigned, now_ms()))
                poison.append(assigned)
            else:
                self._desk.take(assigned)
        for one in poison[:1]:
            self._park(source, poison_error(one), one.finished, attempts=one.deaths)

    def _park(self, source: Source, error: TallystreamError, finished: Finished, attempts: int = 1) -> None:
        shards = self._settings.shards
        letter = dead_letter(source, error, stage="worker", shards=shards, attempts=attempts)
        self._parked.append((letter, finished))

    def _begin(self) -> None:
        now = now_ms()
        free = self._engine.capacity()
        self._ledger.drawing(self._desk.drawing - self._ended.qsize(), free)
        begun = list(self._desk.begin(self._circuit.room(free, time.monotonic()), now))
        if begun:
            self._journal.hold(self._desk.in_hand())
        for assigned in begun:
            task = generation_task(assigned, now=now, limits=self._settings.engine)
            if assigned.group.cache and (known := self._answers.get(assigned.tenant, task, now / 1000)):
                self._desk.end(known)
                continue
            self._circuit.begun(assigned.key)
            self._engine.submit(task)

    def _give_up(self) -> None:
        """An engine that has failed for long may need a new process; nothing is in hand that could be blamed.

        Raises:
            EngineError: it has.
        """
        longest, failing = self._settings.engine.give_up_after, self._circuit.open_for(time.monotonic())
        if 0 < longest <= failing and not self._desk.in_hand():
            raise EngineError(f"The engine has failed for {failing:.0f} s; a fresh process may do better")

    def _publish(self) -> None:
        while not self._ended.empty():
            self._end(self._ended.get())
        in_hand = self._desk.in_hand()
        self._journal.hold(in_hand)
        self._tell_metrics(len(in_hand))
        samples, finished = self._desk.publishable()
        for assigned, completion in samples:
            if assigned.group.cache:
                task = generation_task(assigned, now=0, limits=self._settings.engine)
                self._answers.put(assigned.tenant, task, completion)
        outputs = [letter for letter, _ in self._parked]
        drawn = [self._drawn(one, completion) for one, completion in samples]
        outputs += [self._output(sample, span) for _, sample, span in drawn]
        if self._consumer.publish(outputs, [*finished, *(end for _, end in self._parked)]):
            self._parked.clear()
            for assigned, sample, span in drawn:
                metrics.sample_published(sample, assigned.lane)
                end_sample_span(span, sample)
            self._publish_at = time.monotonic() + worth_waiting(len(outputs))
            ran = self._desk.published(finished)
            for assigned in ran:
                self._tokens.end(assigned.key)
            self._journal.end(self._desk.cleared(ran))

    def _tell_metrics(self, rows: int) -> None:
        metrics.ENGINE_ROWS.set(rows)
        metrics.ENGINE_CIRCUIT.set(self._circuit.is_open)
        for lane in range(len(LANES)):
            metrics.LANE_HELD.labels(str(lane)).set(self._desk.waiting(lane))

    def _end(self, completion: Completion) -> None:
        key, fault = completion.key, self._circuit.ended(completion, time.monotonic())
        if fault and self._desk.again(key, self._settings.engine.attempts):
            self._tokens.again(key)
        else:
            self._desk.end(completion)

    def _drawn(self, assigned: Assigned, completion: Completion) -> tuple[Assigned, Sample, Span]:
        sample = sample_of(assigned, completion, worker=self._name)
        return assigned, sample, begin_sample_span(assigned, sample)

    def _output(self, sample: Sample, span: Span) -> Output:
        value = fitted_sample(sample, self._codec.encode, LARGEST_SAMPLE)
        request_id = sample.request_id
        shard = shard_of(request_id, self._settings.shards)
        return Output(SAMPLES, shard, request_id.encode(), value, headers=headers_of(after(span)))

    def _cancel(self, keys: Sequence[TaskKey]) -> None:
        for key in keys:
            self._engine.cancel(key)
            self._tokens.end(key)

    def _full(self) -> list[Place]:
        """Partitions whose lane holds enough unserved work, or that have no room to track more."""
        most = self._settings.worker.prefetch * self._settings.batching.max_batch
        places = [
            (lane, (LANES[lane], s)) for lane in range(len(LANES)) for s in range(self._settings.shards)
        ]
        return [
            place
            for lane, place in places
            if self._desk.waiting(lane) >= most or not self._consumer.room(place, MOST_TASKS_IN_BATCH)
        ]


def _checked(event: Event, topic: str) -> Batch:
    """Refuse a batch that the batcher can not have written: what it leads to would fit nowhere."""
    if not isinstance(event, Batch):
        raise DecodeError(f"a {type(event).__name__} on {topic}")
    if sum(len(group.tasks) for group in event.groups) > MOST_TASKS_IN_BATCH:
        raise DecodeError(f"a batch of more than {MOST_TASKS_IN_BATCH} tasks")
    if any(len(group.request_id) + len(group.path) > _LONGEST_NAMES for group in event.groups):
        raise DecodeError(f"request_id and path of more than {_LONGEST_NAMES} characters")
    return event


def main() -> None:
    """Run a worker until it is told to stop."""
    settings = load_settings()
    configure_telemetry(settings, f"worker-{settings.slot}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with CrashJournal.of(settings, "worker") as journal, watched(settings, "worker") as ledger:
        engine = create_engine(settings)
        codec = make_codec(settings, writes=(Sample, Progress), asking=ledger.waiting(journal.let_go))
        worker = Worker(settings, codec, engine, journal, ledger)
        try:
            engine.start(worker)
            process_memory.settle()
            log.info("ready", engine=settings.engine.name)
            worker.run(stop)
        finally:
            engine.close()


if __name__ == "__main__":
    run_agent(main)
