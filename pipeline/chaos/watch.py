"""Follows a running pipeline: signs of life between faults, and how long it takes to recover from one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pipeline.chaos.load import Asked
from pipeline.client import TopicFollower
from pipeline.events import Delivery, DeliveryState, Event, Opened, Result, Sample
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.topics import DELIVERIES, RESULTS, SAMPLES

TRACE: dict[str, type[Event]] = {
    "batcher": Opened,
    "worker": Sample,
    "aggregator": Result,
    "webhook": Delivery,
    "broker": Result,
}
"""What shows that a role works."""


@dataclass(slots=True)
class Recovery:
    """How long the pipeline took after a fault; monotonic seconds."""

    since: float
    until: float | None = None

    @property
    def seconds(self) -> float | None:
        return None if self.until is None else self.until - self.since


class Watch:
    """Reads ``samples``, ``results`` and ``deliveries`` on a thread of its own, from its start on.

    The pipeline has recovered from a fault when for every partition of ``requests`` some request that was sent
    after the fault has its final result: that one can only have passed the hop that was hit afterwards.

    Attributes:
        asked: every request that was handed to the producer, by id.
        finals: when each request's final result was seen, in monotonic seconds.
        counts: records seen, by kind of event.
        moved_at: when anything was last seen.
    """

    def __init__(self, settings: Settings, partitions: int) -> None:
        self.asked: dict[str, Asked] = {}
        self.finals: dict[str, float] = {}
        self.counts: Counter[type[Event]] = Counter()
        self.moved_at = time.monotonic()
        self._newest = [float("-inf")] * partitions
        self._recovering: list[Recovery] = []
        self._owed: set[tuple[str, int, int]] = set()
        self._ended: set[tuple[str, int, int]] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._follower = TopicFollower(settings, make_codec(settings), [SAMPLES, RESULTS, DELIVERIES])
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._follower.close()

    def recovery(self) -> Recovery:
        """Begin to measure now."""
        recovery = Recovery(time.monotonic())
        with self._lock:
            self._recovering.append(recovery)
        return recovery

    def idle_for(self) -> float:
        """Seconds since anything was last seen."""
        return time.monotonic() - self.moved_at

    @property
    def unanswered(self) -> int:
        """Requests without a final result."""
        return len(self.asked) - len(self.finals)

    @property
    def waiting(self) -> int:
        """Requests without a final result and callbacks without an end."""
        with self._lock:
            return self.unanswered + len(self._owed - self._ended)

    def _run(self) -> None:
        while not self._stop.is_set():
            for _, event in self._follower.read(0.1):
                with self._lock:
                    self._note(event, time.monotonic())

    def _note(self, event: Event, now: float) -> None:
        self.counts[type(event)] += 1
        self.moved_at = now
        if isinstance(event, Result):
            self._owe(event)
            if event.status.terminal and event.request_id not in self.finals:
                self.finals[event.request_id] = now
                self._settle(event.request_id, now)
        elif isinstance(event, Delivery) and event.state is not DeliveryState.PENDING:
            self._ended.add((event.request_id, event.run, event.revision))

    def _owe(self, result: Result) -> None:
        event = "done" if result.status.terminal else "first_answer"
        if result.callback is not None and event in result.callback.events:
            self._owed.add((result.request_id, result.run, result.revision))

    def _settle(self, request_id: str, now: float) -> None:
        asked = self.asked.get(request_id)
        if asked is None:
            return
        self._newest[asked.partition] = max(self._newest[asked.partition], asked.sent_at)
        for recovery in self._recovering:
            if min(self._newest) >= recovery.since:
                recovery.until = now
        self._recovering = [recovery for recovery in self._recovering if recovery.until is None]
