"""The worker: batches to samples. Picks tasks from the lanes by weight and publishes each sample as it ends.

One thread talks to Kafka and keeps polling; the engine draws on its own. A sample and the progress it
stands for are committed together, so a successor draws again only what was never published.
"""

from __future__ import annotations

import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import structlog
from confluent_kafka import Message
from pipeline.engine.factory import create_engine

from pipeline.control import ControlReader
from pipeline.engine.base import Completion, Engine, GenerationTask, SamplingParams, TaskKey
from pipeline.errors import DecodeError, TallystreamError
from pipeline.events import Batch, Sample, SampleTask, SampleTimings, TaskGroup
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source, dead_letter
from pipeline.kafka.progress import ProgressWriter, TokenStream
from pipeline.kafka.records import Output
from pipeline.kafka.transactions import Finished, Place, TransactionalConsumer, place_of
from pipeline.scheduling.lanes import WeightedRoundRobin
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_logging, now_ms
from pipeline.topics import LANES, SAMPLES, shard_of

log = structlog.get_logger("agents.worker")

_BUSY_POLL, _IDLE_POLL = 0.005, 0.1
_REMEMBERED_DECISIONS = 50_000


@dataclass(frozen=True, slots=True)
class Assigned:
    """A sample task with the place in Kafka that its completion moves."""

    group: TaskGroup
    task: SampleTask
    finished: Finished
    queued_at: int


class Worker:
    """Serves the six lanes of its shards with one engine."""

    def __init__(self, settings: Settings, codec: Codec, engine: Engine) -> None:
        self._settings, self._codec, self._engine = settings, codec, engine
        self._name = f"{settings.app}-worker-{settings.slot}"
        self._tasks: dict[TaskKey, Assigned] = {}
        self._waiting: dict[int, deque[TaskKey]] = {lane: deque() for lane in range(len(LANES))}
        self._running: dict[TaskKey, Assigned] = {}
        self._unpublished: dict[TaskKey, Sample] = {}
        self._decided: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._ended: SimpleQueue[Completion] = SimpleQueue()
        self._outputs: list[Output] = []
        self._finished: list[Finished] = []
        self._turns = WeightedRoundRobin(settings.worker.quotas)
        self._tokens = TokenStream(ProgressWriter(settings, codec))
        self._control = ControlReader(settings, codec)
        self._consumer = TransactionalConsumer(settings, role="worker", topics=LANES, listener=self)

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set."""
        try:
            while not stop.is_set():
                busy = bool(self._running or self._unpublished)
                for message in self._consumer.poll(_BUSY_POLL if busy else _IDLE_POLL):
                    self._take(message)
                for key in self._control.drain():
                    self._decide(key)
                self._fill()
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
        """Stop drawing what is now somebody else's."""
        for key, assigned in list(self._running.items()):
            if not self._consumer.owns(assigned.finished.place):
                self._engine.cancel(key)
        self._unpublished = {
            key: sample
            for key, sample in self._unpublished.items()
            if key in self._running and self._consumer.owns(self._running[key].finished.place)
        }

    def revoking(self) -> None:
        self._publish()

    def dropped(self, places: Sequence[Place]) -> None:
        """Forget the records of these partitions; samples in the making are kept in case they come back."""
        gone = set(places)
        self._tasks = {key: a for key, a in self._tasks.items() if a.finished.place not in gone}
        for lane, waiting in self._waiting.items():
            self._waiting[lane] = deque(key for key in waiting if key in self._tasks)
        self._finished = [item for item in self._finished if item.place not in gone]
        self._outputs.clear()

    def _take(self, message: Message) -> None:
        place, offset = place_of(message), message.offset() or 0
        if message.value() is None:
            self._consumer.track(message, 0)
            return
        try:
            batch = self._codec.decode(message.value() or b"")  # type: ignore[arg-type]
            if not isinstance(batch, Batch):
                raise DecodeError(f"a {type(batch).__name__} on {place[0]}")
        except DecodeError as error:
            self._park(message, error)
            return
        tasks = [(group, task) for group in batch.groups for task in group.tasks]
        done = self._consumer.track(message, len(tasks))
        for bit, (group, task) in enumerate(tasks):
            if done >> bit & 1:
                continue
            key = TaskKey(group.request_id, group.run, task.sample_index)
            if key in self._tasks:  # the same task in an earlier batch: that one counts
                self._finished.append(Finished(place, offset, bit))
                continue
            self._tasks[key] = Assigned(group, task, Finished(place, offset, bit), batch.created_at)
            if key not in self._running:
                self._waiting[batch.lane].append(key)

    def _park(self, message: Message, error: TallystreamError) -> None:
        source = Source.of(message)
        log.warning("dead letter", offset=source.offset, code=error.code, error=error.message)
        if self._consumer.track(message, 1) == 0:
            self._outputs.append(dead_letter(source, error, stage="worker", shards=self._settings.shards))
            self._finished.append(Finished(place_of(message), source.offset, 0))

    def _decide(self, request: tuple[str, int]) -> None:
        """Its window is closed: draw nothing more for it."""
        self._decided[request] = None
        if len(self._decided) > _REMEMBERED_DECISIONS:
            self._decided.popitem(last=False)
        for key in [key for key in self._running if key[:2] == request]:
            self._engine.cancel(key)

    def _fill(self) -> None:
        now = now_ms()
        for _ in range(max(self._engine.capacity(), 0)):
            lane = self._turns.next([lane for lane, waiting in self._waiting.items() if waiting])
            while lane is not None and self._waiting[lane]:
                key = self._waiting[lane].popleft()
                assigned = self._tasks.get(key)
                if assigned is None or key in self._running:
                    continue
                if key[:2] in self._decided or assigned.group.deadline_at <= now:
                    self._finished.append(assigned.finished)
                    continue
                self._running[key] = assigned
                self._engine.submit(
                    _generation_task(key, assigned, now, self._settings.engine.sample_timeout)
                )
                break

    def _publish(self) -> None:
        while not self._ended.empty():
            completion = self._ended.get()
            assigned = self._running.get(completion.key)
            if assigned is not None:
                self._unpublished[completion.key] = _sample(completion, assigned, self._name)
        ready = {key: sample for key, sample in self._unpublished.items() if key in self._tasks}
        surplus = [key for key in ready if key[:2] in self._decided]
        outputs = self._outputs + [
            Output(
                SAMPLES,
                shard_of(key.request_id, self._settings.shards),
                key.request_id.encode(),
                self._codec.encode(sample),
            )
            for key, sample in ready.items()
            if key not in surplus
        ]
        finished = self._finished + [self._tasks[key].finished for key in ready]
        if not self._consumer.publish(outputs, finished):
            return
        self._outputs, self._finished = [], []
        for key in ready:
            del self._unpublished[key], self._tasks[key]
            self._running.pop(key, None)
            self._tokens.end(key)

    def _full(self) -> list[Place]:
        """Partitions of lanes that hold enough unserved work, or no room to track more."""
        most = self._settings.worker.prefetch * self._settings.batching.max_batch
        return [
            (LANES[lane], shard)
            for lane, waiting in self._waiting.items()
            for shard in range(self._settings.shards)
            if len(waiting) >= most or not self._consumer.room((LANES[lane], shard), 256)
        ]


def _generation_task(key: TaskKey, assigned: Assigned, now: int, timeout: float) -> GenerationTask:
    group = assigned.group
    return GenerationTask(
        key=key,
        messages=group.messages,
        params=SamplingParams(
            temperature=group.temperature,
            top_p=group.top_p,
            max_new_tokens=group.max_new_tokens,
            seed=assigned.task.seed,
            stop=group.stop,
        ),
        deadline=min(now / 1000 + timeout, group.deadline_at / 1000),
    )


def _sample(completion: Completion, assigned: Assigned, worker: str) -> Sample:
    def ms(seconds: float) -> int:
        return round(seconds * 1000)

    group, task, first = assigned.group, assigned.task, completion.first_token_at
    return Sample(
        request_id=group.request_id,
        run=group.run,
        sample_index=task.sample_index,
        role=task.role,
        path=group.path,
        text=completion.text,
        finish_reason=completion.finish_reason,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        mean_logprob=completion.mean_logprob,
        seed=completion.seed,
        temperature=group.temperature,
        timings=SampleTimings(
            queued_at=assigned.queued_at,
            started_at=ms(completion.started_at),
            first_token_at=None if first is None else ms(first),
            finished_at=ms(completion.finished_at),
        ),
        worker=worker,
        error=completion.error,
    )


def main() -> None:
    """Run a worker until it is told to stop."""
    settings = load_settings()
    configure_logging(settings, f"worker-{settings.slot}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    engine = create_engine(settings)
    worker = Worker(settings, make_codec(settings), engine)
    engine.start(worker)
    log.info("ready", engine=settings.engine.name)
    try:
        worker.run(stop)
    finally:
        engine.close()


if __name__ == "__main__":
    main()
