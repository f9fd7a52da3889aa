"""Asks a pipeline steadily, and tells when something asked after a moment came through."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from pipeline.bench.question import question
from pipeline.client import RequestProducer, TopicFollower
from pipeline.events import Callback, Delivery, Result
from pipeline.ids import new_request_id
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import DELIVERIES, RESULTS


class RecoveryWatch:
    """Asks and follows on threads of its own while the block runs. All times in monotonic seconds."""

    def __init__(self, settings: Settings, callback: Callback, rate: float) -> None:
        codec = make_codec(settings)
        self._callback, self._every = callback, 1 / rate
        self._producer = RequestProducer(settings, codec)
        self._follower = TopicFollower(settings, codec, [RESULTS, DELIVERIES])
        self._asked: dict[str, float] = {}
        self._newest: dict[str, float] = {RESULTS: float("-inf"), DELIVERIES: float("-inf")}
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=run.__name__, daemon=True) for run in (self._ask, self._follow)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._follower.close()

    def wait(self, topic: str, since: float, patience: float) -> float | None:
        """When the first record of a request that was asked after ``since`` was read from a topic."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest[topic] > since, patience)
            return self._seen[topic] if self._newest[topic] > since else None

    def _ask(self) -> None:
        while not self._stop.wait(self._every):
            request_id = new_request_id(now_ms())
            self._asked[request_id] = time.monotonic()
            self._producer.send(question(request_id, self._callback))

    def _follow(self) -> None:
        while not self._stop.is_set():
            for topic, event in self._follower.read(0.1):
                if isinstance(event, Result | Delivery):
                    self._note(topic, self._asked.get(event.request_id, float("-inf")))

    def _note(self, topic: str, asked: float) -> None:
        with self._changed:
            if asked > self._newest[topic]:
                self._newest[topic], self._seen[topic] = asked, time.monotonic()
                self._changed.notify_all()
