"""The Kafka half of delivery: results to pending deliveries, and the outcome of each attempt.

A result's offset and its ``pending`` delivery are one transaction, each attempt's outcome is one more; so after
a crash every pending delivery is found in ``deliveries``, and what was sent but not recorded is sent again with
the same id. `pipeline.delivery.asked` brings what people wrote there meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue

from confluent_kafka import Message

from pipeline import metrics
from pipeline.delivery.asked import Asked
from pipeline.delivery.dispatcher import Dispatcher
from pipeline.delivery.guard import endpoint_of
from pipeline.delivery.payload import new_delivery
from pipeline.delivery.standing import Standing, told_by
from pipeline.errors import DecodeError, PoisonRecordError, RecordTooLargeError
from pipeline.events import Delivery, DeliveryState, Result
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source, dead_letter, decode_record
from pipeline.kafka.quarantine import Part, Quarantine
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Finished, Output, Place, size_of
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.ledger import Ledger
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import DELIVERIES, RESULTS, largest_record, shard_of
from pipeline.tracing.spans import trace_of

_POLL = 0.02
_HAND_OVER = 3.0
"""Seconds that a rebalance waits for callbacks under way: what is not recorded by then is sent again."""
_PROGRESS_EVERY = 0.25
"""Seconds in which results that want no callback share one transaction: it holds nothing but their offsets."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A delivery after an attempt, and whom to tell when it is durable."""

    delivery: Delivery
    durable: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Last:
    """What the newest record of a delivery says, without its body."""

    state: DeliveryState
    attempt: int
    attempts_before: int

    @classmethod
    def of(cls, delivery: Delivery) -> Last:
        return cls(delivery.state, delivery.attempt, delivery.attempts_before)

    def follows(self, made: Delivery) -> bool:
        """Whether this was written with, or after, an outcome; one that was given up has no attempt of its own."""
        if self.attempt != made.attempt:
            return self.attempt > made.attempt
        return self.state is made.state or self.attempts_before > made.attempts_before


class DeliveryLog:
    """The Kafka half: reads results, writes deliveries. Runs on a thread of its own."""

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        loop: asyncio.AbstractEventLoop,
        quarantine: Quarantine,
        ledger: Ledger,
    ) -> None:
        self._settings, self._codec, self._loop, self._quarantine = settings, codec, loop, quarantine
        self._ledger = ledger
        self._dispatcher: Dispatcher | None = None
        self._attempted: SimpleQueue[Recorded] = SimpleQueue()
        self._recording: list[Recorded] = []
        self._outputs: list[Output] = []
        self._finished: list[Finished] = []
        self._new: list[Delivery] = []
        self._consumer = TransactionalConsumer(
            settings, role="webhook", topics=[RESULTS], listener=self, look=codec.look
        )
        self._asked = Asked(settings)

    async def record(self, delivery: Delivery) -> None:
        """Return when the outcome of an attempt is durable; called on the event loop."""
        durable: asyncio.Future[None] = self._loop.create_future()
        self._attempted.put(Recorded(delivery, durable))
        await durable

    def run(self, dispatcher: Dispatcher, stop: threading.Event) -> None:
        """Serve until ``stop`` is set."""
        self._dispatcher = dispatcher
        progress_at = time.monotonic()
        try:
            while not stop.is_set():
                self._take_all(self._consumer.poll(_POLL))
                for message in self._asked.poll():
                    self._take_asked(message)
                if self._has_records() or time.monotonic() > progress_at:
                    self._publish()
                    progress_at = time.monotonic() + _PROGRESS_EVERY
                self._ledger.own(self._consumer.holding)
        finally:
            self._publish()
            self._consumer.close()
            self._asked.close()

    def assigned(self, places: Sequence[Place]) -> None:
        """Take up what earlier owners left pending."""
        last: dict[str, Last] = {}
        pending: dict[str, Delivery] = {}
        told: dict[str, Standing] = {}
        starts = {shard: 0 for _, shard in places}
        for message in read_back(self._settings, [(DELIVERIES, shard) for _, shard in places]):
            starts[message.partition() or 0] = (message.offset() or 0) + 1
            event = self._delivery_of(message)
            if event is None:
                continue
            last[event.delivery_id] = Last.of(event)
            if event.state is DeliveryState.PENDING:
                pending[event.delivery_id] = event
            else:
                pending.pop(event.delivery_id, None)
            endpoint, standing = endpoint_of(event.url), told_by(event)
            if standing is not None and (endpoint not in told or told[endpoint].as_of <= standing.as_of):
                told[endpoint] = standing
        self._asked.follow(starts)
        # A transaction that nobody answered may have been committed.
        self._settle(lambda made: made.delivery_id in last and last[made.delivery_id].follows(made))
        self._loop.call_soon_threadsafe(self._sender.learn, told)
        for delivery in pending.values():
            self._submit(delivery)
        self._loop.call_soon_threadsafe(self._sender.resume)

    def revoking(self) -> None:
        """Begin no callback any more, and record those under way: the next owner would send them again."""
        quiet = asyncio.run_coroutine_threadsafe(self._sender.pause(), self._loop)
        deadline = time.monotonic() + _HAND_OVER
        while self._publish() and not quiet.done() and time.monotonic() < deadline:
            wait([quiet], timeout=_POLL)

    def rewound(self, places: Sequence[Place]) -> None:
        """Results of these partitions come again; what was attempted is recorded then."""
        self._ledger.waited()
        self._outputs, self._finished, self._new = [], [], []

    def dropped(self, places: Sequence[Place]) -> None:
        """Deliveries of partitions that are gone are forgotten, and what was attempted and is not recorded.

        Whoever owns them next, perhaps this process, goes on from what is recorded.
        """
        self.rewound(places)
        self._asked.follow({})
        shards, gone = self._settings.shards, {shard for _, shard in places}

        def is_gone(delivery: Delivery) -> bool:
            return shard_of(delivery.request_id, shards) in gone

        forgotten = threading.Event()
        self._loop.call_soon_threadsafe(self._sender.forget_all, is_gone)
        self._loop.call_soon_threadsafe(forgotten.set)
        forgotten.wait(_HAND_OVER)  # from then on none of them is attempted any more
        self._settle(is_gone)

    def _settle(self, over: Callable[[Delivery], bool]) -> None:
        """Record these attempts no more."""
        self._gather()
        for item in self._recording:
            if over(item.delivery):
                self._loop.call_soon_threadsafe(_resolve, item.durable)
        self._recording = [item for item in self._recording if not over(item.delivery)]

    def _gather(self) -> None:
        while not self._attempted.empty():
            self._recording.append(self._attempted.get())

    def _take_all(self, messages: Sequence[Message]) -> None:
        waiting = iter(messages)
        for part in self._quarantine.parts([Source.of(message) for message in messages]):
            with part.in_hand():
                for message in islice(waiting, len(part.records)):
                    self._take(message, part)
            if not part.poison:
                part.end()

    def _take(self, message: Message, part: Part) -> None:
        if message.value() is None:
            self._consumer.track(message, 0)
            return
        self._consumer.track(message, 1)
        source = Source.of(message)
        try:
            if part.poison:
                raise part.error()
            event = decode_record(self._codec, source)
            trace = trace_of(source.headers)
            delivery = new_delivery(event, now_ms(), trace) if isinstance(event, Result) else None
            if delivery is not None:
                self._check_size(delivery)
                self._new.append(delivery)
        except (DecodeError, PoisonRecordError) as error:
            shards, attempts = self._settings.shards, max(part.deaths, 1)
            letter = dead_letter(source, error, stage="webhook", shards=shards, attempts=attempts)
            self._outputs.append(letter)
        self._finished.append(Finished(place_of(message), message.offset() or 0, 0))

    def _delivery_of(self, message: Message) -> Delivery | None:
        """None: somebody else's record."""
        try:
            event = self._codec.decode(value_of(message))
        except DecodeError:
            return None
        return event if isinstance(event, Delivery) else None

    def _take_asked(self, message: Message) -> None:
        event = self._delivery_of(message)
        if event is None or not self._owns(event):
            return
        if (standing := told_by(event)) is not None:
            self._loop.call_soon_threadsafe(self._sender.learn, {endpoint_of(event.url): standing})
        self._submit(event)

    def _has_records(self) -> bool:
        """Whether there is more to write than that results without a callback were read."""
        return bool(self._outputs or self._new or self._recording or not self._attempted.empty())

    def _publish(self) -> bool:
        """Whether all that is known is written."""
        self._gather()
        attempted = [item.delivery for item in self._recording if self._owns(item.delivery)]
        outputs = [*self._outputs, *map(self._output, [*self._new, *attempted])]
        if not self._consumer.publish(outputs, self._finished):
            return False
        metrics.attempts_recorded(attempted)
        for delivery in self._new:
            self._submit(delivery)
        for item in self._recording:
            self._loop.call_soon_threadsafe(_resolve, item.durable)
        self._outputs, self._finished, self._new, self._recording = [], [], [], []
        return True

    def _owns(self, delivery: Delivery) -> bool:
        return self._consumer.owns((RESULTS, shard_of(delivery.request_id, self._settings.shards)))

    def _output(self, delivery: Delivery) -> Output:
        shard = shard_of(delivery.request_id, self._settings.shards)
        return Output(DELIVERIES, shard, delivery.delivery_id.encode(), self._codec.encode(delivery))

    def _check_size(self, delivery: Delivery) -> None:
        """Only a result that the aggregator did not write can lead to more than a record takes."""
        out = self._output(delivery)
        if size_of(out.key, out.value) > largest_record(DELIVERIES):
            raise RecordTooLargeError("the callback's body and URL would not fit a record")

    def _submit(self, delivery: Delivery) -> None:
        self._loop.call_soon_threadsafe(self._sender.submit, delivery)

    @property
    def _sender(self) -> Dispatcher:
        assert self._dispatcher is not None
        return self._dispatcher


def _resolve(durable: asyncio.Future[None]) -> None:
    if not durable.done():
        durable.set_result(None)
