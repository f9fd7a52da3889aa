"""The worker: batches to samples. Picks tasks from the lanes by weight and publishes each sample as it ends.

One thread talks to Kafka and keeps polling; the engine draws on its own. A sample and the progress it
stands for are committed together, so a successor draws again only what was never published.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from queue import SimpleQueue

import structlog
from confluent_kafka import Message

from pipeline.control import ControlReader
from pipeline.engine.base import Completion, Engine, TaskKey
from pipeline.engine.factory import create_engine
from pipeline.errors import DecodeError
from pipeline.events import Batch
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source, dead_letter
from pipeline.kafka.progress import ProgressWriter, TokenStream
from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.scheduling.convert import generation_task, sample_of
from pipeline.scheduling.desk import Assigned, TaskDesk
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_logging, now_ms
from pipeline.topics import LANES, MOST_TASKS_IN_BATCH, SAMPLES, shard_of

log = structlog.get_logger("agents.worker")

_BUSY_POLL, _IDLE_POLL = 0.005, 0.1


class Worker:
    """Serves the six lanes of its shards with one engine."""

    def __init__(self, settings: Settings, codec: Codec, engine: Engine) -> None:
        self._settings, self._codec, self._engine = settings, codec, engine
        self._name = f"{settings.app}-worker-{settings.slot}"
        self._desk = TaskDesk(settings.worker.quotas)
        self._ended: SimpleQueue[Completion] = SimpleQueue()
        self._parked: list[tuple[Output, Finished]] = []
        self._tokens = TokenStream(ProgressWriter(settings, codec))
        self._control = ControlReader(settings, codec)
        self._consumer = TransactionalConsumer(settings, role="worker", topics=LANES, listener=self)

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set."""
        try:
            while not stop.is_set():
                for message in self._consumer.poll(_BUSY_POLL if self._desk.busy else _IDLE_POLL):
                    self._take(message)
                for request in self._control.drain():
                    self._cancel(self._desk.decide(request))
                self._begin()
                self._publish()
                self._consumer.hold(self._full())
                self._tokens.flush(now_ms())
        finally:
            self._publish()
            self._consumer.close()
            self._control.close()

    def tokens(self, key: TaskKey, text: str) -> None:
        """On the engine's thread."""
        self._tokens.add(key, text)

    def done(self, completion: Completion) -> None:
        """On the engine's thread."""
        self._ended.put(completion)

    def assigned(self, places: Sequence[Place]) -> None:
        self._cancel(self._desk.keep(places))

    def revoking(self) -> None:
        self._publish()

    def dropped(self, places: Sequence[Place]) -> None:
        self._desk.drop(set(places))
        self._parked.clear()

    def _take(self, message: Message) -> None:
        place, offset = place_of(message), message.offset() or 0
        if message.value() is None:
            self._consumer.track(message, 0)
            return
        try:
            batch = self._codec.decode(value_of(message))
            if not isinstance(batch, Batch):
                raise DecodeError(f"a {type(batch).__name__} on {place[0]}")
        except DecodeError as error:
            self._consumer.track(message, 1)
            letter = dead_letter(Source.of(message), error, stage="worker", shards=self._settings.shards)
            self._parked.append((letter, Finished(place, offset, 0)))
            return
        tasks = [(group, task) for group in batch.groups for task in group.tasks]
        done = self._consumer.track(message, len(tasks))
        for bit, (group, task) in enumerate(tasks):
            assigned = Assigned(group, task, Finished(place, offset, bit), batch.created_at, batch.lane)
            if done >> bit & 1:
                self._desk.through(assigned.key)
            else:
                self._desk.take(assigned)

    def _begin(self) -> None:
        now = now_ms()
        for assigned in self._desk.begin(self._engine.capacity(), now):
            self._engine.submit(
                generation_task(assigned, now=now, timeout=self._settings.engine.sample_timeout)
            )

    def _publish(self) -> None:
        while not self._ended.empty():
            self._desk.end(self._ended.get())
        samples, finished = self._desk.publishable()
        outputs = [letter for letter, _ in self._parked]
        outputs += [self._output(assigned, completion) for assigned, completion in samples]
        if self._consumer.publish(outputs, [*finished, *(end for _, end in self._parked)]):
            self._parked.clear()
            for key in self._desk.published(finished):
                self._tokens.end(key)

    def _output(self, assigned: Assigned, completion: Completion) -> Output:
        value = self._codec.encode(sample_of(assigned, completion, worker=self._name))
        request_id = assigned.group.request_id
        return Output(SAMPLES, shard_of(request_id, self._settings.shards), request_id.encode(), value)

    def _cancel(self, keys: Sequence[TaskKey]) -> None:
        for key in keys:
            self._engine.cancel(key)

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


def main() -> None:
    """Run a worker until it is told to stop."""
    settings = load_settings()
    configure_logging(settings, f"worker-{settings.slot}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = create_engine(settings)
    worker = Worker(settings, make_codec(settings, patient=True), engine)
    try:
        engine.start(worker)
        log.info("ready", engine=settings.engine.name)
        worker.run(stop)
    finally:
        engine.close()


if __name__ == "__main__":
    main()
