"""A producer that never stops: all modes and priorities, some callbacks, a steady rate."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError

from pipeline.client import RequestProducer
from pipeline.errors import TallystreamError
from pipeline.events import PRIORITIES, Callback, InferenceRequest, Mode, SamplingOverrides
from pipeline.ids import new_request_id
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import request_partition

_FLUSH = 60.0
_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that was sent; ``sent_at`` in monotonic seconds."""

    request: InferenceRequest
    partition: int
    sent_at: float


Room = Callable[[], bool]


class Load:
    """Sends on a thread of its own until ``stop``.

    Args:
        asked: where every request is noted before it is sent.
        room: whether more may be sent; without it, a machine that is too slow for the rate would be judged by
            the deadlines that it misses.

    """

    def __init__(
        self,
        settings: Settings,
        *,
        seed: int,
        rate: float,
        callback_url: str,
        asked: dict[str, Asked],
        room: Room,
    ) -> None:
        self.asked = asked
        self._settings, self._rate, self._url, self._room = settings, rate, callback_url, room
        self._chance = random.Random(f"load {seed}")
        self._producer = RequestProducer(settings, make_codec(settings))
        self._acknowledged: set[str] = set()
        self._stop = threading.Event()
        self._error: TallystreamError | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    @property
    def accepted(self) -> frozenset[str]:
        """What the broker has acknowledged."""
        return frozenset(self._acknowledged)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def stop(self) -> None:
        """Send nothing more; everything is acknowledged, or refused, when it returns.

        Raises:
            BrokerDownError: the broker does not take what was sent.
        """
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        self._producer.flush(_FLUSH)

    def _run(self) -> None:
        try:
            due = time.monotonic()
            for partition in self._partitions():
                if self._stop.wait(max(0.0, due - time.monotonic())):
                    return
                while not self._room() and not self._stop.wait(_LOOK):
                    due = time.monotonic()
                due += 1 / self._rate
                request = self._request(partition)
                self.asked[request.request_id] = Asked(request, partition, time.monotonic())
                self._producer.send(request, self._delivered)
        except TallystreamError as error:
            self._error = error

    def _partitions(self) -> Iterator[int]:
        """All partitions of ``requests`` in turn, so that a silent one is noticed soon."""
        while True:
            yield from range(PRIORITIES * self._settings.shards)

    def _request(self, partition: int) -> InferenceRequest:
        chance, shards = self._chance, self._settings.shards
        priority = partition // shards
        request_id = new_request_id(now_ms())
        while request_partition(request_id, priority, shards) != partition:
            request_id = new_request_id(now_ms())
        mode = chance.choice(list(Mode))
        few = SamplingOverrides(n=chance.randint(2, 7)) if chance.random() < 0.1 else SamplingOverrides()
        events = ("first_answer", "done") if chance.random() < 0.5 else ("done",)
        return InferenceRequest(
            request_id,
            f"Question {chance.randrange(10**6)}? {chance.choice(('', 'answers=4,5', 'answers=6,6,7'))}",
            priority=priority,
            mode=mode,
            sampling=few,
            callback=Callback(self._url, events=events) if chance.random() < 0.4 else None,
        )

    def _delivered(self, request_id: str, error: KafkaError | None) -> None:
        if error is None:
            self._acknowledged.add(request_id)
