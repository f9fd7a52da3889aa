"""Follows requests through every topic and tells how long each hop took.

All times are this machine's: the broker stamps a record when it is appended, which is inside its writer's
transaction; so the commit, and the reader's wait for it, belong to the next hop.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import Message, TopicPartition

from pipeline.errors import DependencyDownError
from pipeline.events import DEFAULT_PRIORITY, Batch, Result, Sample
from pipeline.kafka.clients import assigned_consumer, patiently, poll_many, value_of
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import LANES, REQUESTS, RESULTS, SAMPLES

_PATIENCE = 120.0


class Hop(StrEnum):
    """From one moment to the next."""

    BATCHER = "request appended → batch appended"
    TO_ENGINE = "batch appended → last sample begun"
    ENGINE = "last sample begun → drawn"
    PUBLICATION = "last sample drawn → appended"
    AGGREGATOR = "last sample appended → result appended"
    READER = "result appended → read"
    ALL = "request appended → result read"


class Trace:
    """Reads the topics while the block runs, on a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self._codec = make_codec(settings)
        self._consumer = assigned_consumer(settings, enable_partition_eof=False)
        metadata = self._consumer.list_topics(timeout=10).topics
        places = [
            TopicPartition(topic, partition)
            for topic in (REQUESTS, LANES[DEFAULT_PRIORITY], SAMPLES, RESULTS)
            for partition in metadata[topic].partitions
        ]
        for place in places:
            place.offset = patiently(partial(self._consumer.get_watermark_offsets, place, timeout=10))[1]
        self._consumer.assign(places)
        self._requests: dict[str, int] = {}
        self._batches: dict[str, int] = {}
        self._samples: defaultdict[str, dict[int, tuple[Sample, int]]] = defaultdict(dict)
        self._results: dict[str, tuple[Result, int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trace", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def hops(self, count: int) -> Mapping[Hop, Sequence[float]]:
        """Milliseconds of each hop of so many requests.

        Raises:
            DependencyDownError: fewer could be followed.
        """
        deadline = time.monotonic() + _PATIENCE
        while len(self._results) < count:
            if time.monotonic() > deadline:
                raise DependencyDownError(f"only {len(self._results)} of {count} requests could be followed")
            time.sleep(0.05)
        found: dict[Hop, list[float]] = {hop: [] for hop in Hop}
        for request_id, (result, appended, read) in self._results.items():
            counted = [self._samples[request_id][chain.sample_index] for chain in result.reasoning]
            last, last_appended = max(counted, key=lambda one: one[1])
            moments = (
                self._requests[request_id],
                self._batches[request_id],
                last.timings.started_at,
                last.timings.finished_at,
                last_appended,
                appended,
                read,
            )
            for hop, begin, end in zip(Hop, moments, moments[1:], strict=False):
                found[hop].append(end - begin)
            found[Hop.ALL].append(moments[-1] - moments[0])
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in poll_many(self._consumer, 500, 0.1):
                if message.error() is None:
                    self._note(message, now_ms())

    def _note(self, message: Message, now: int) -> None:
        at = message.timestamp()[1]
        if message.topic() == REQUESTS:
            self._requests[(message.key() or b"").decode()] = at  # pyright: ignore[reportAttributeAccessIssue]
            return
        match self._codec.decode(value_of(message)):
            case Batch() as batch:
                self._batches.update({group.request_id: at for group in batch.groups})
            case Sample() as sample:
                self._samples[sample.request_id][sample.sample_index] = (sample, at)
            case Result() as result:
                self._results[result.request_id] = (result, at, now)
            case _:
                pass
