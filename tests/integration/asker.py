"""Asks a running pipeline, and keeps what its topics say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from confluent_kafka import Message, TopicPartition

from pipeline.client import RequestProducer
from pipeline.events import Event, InferenceRequest, Result
from pipeline.ids import new_request_id
from pipeline.kafka.clients import assigned_consumer, patiently, plain_producer
from pipeline.kafka.connect import make_codec
from pipeline.kafka.dead_letters import Source
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import DEAD_LETTERS, DELIVERIES, REQUESTS, RESULTS, SAMPLES, request_partition

PATIENCE = 120.0
"""Seconds after which a test gives up; nothing is asserted about how long anything takes."""


class Asker:
    def __init__(
        self, settings: Settings, follow: Sequence[str] = (SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS)
    ) -> None:
        self.settings, self._follow = settings, follow
        self.codec = make_codec(settings, writes=(InferenceRequest,))
        self.producer = RequestProducer(settings, self.codec)
        self._raw = plain_producer(settings)
        self._consumer = assigned_consumer(settings, enable_partition_eof=False)
        self.events: list[tuple[str, int, Event]] = []
        self.dead: list[Source] = []

    def __enter__(self) -> Asker:
        topics = self._consumer.list_topics(timeout=30).topics
        places: list[TopicPartition] = []
        for topic in self._follow:
            for partition in topics[topic].partitions:
                tp = TopicPartition(topic, partition)
                tp.offset = patiently(partial(self._consumer.get_watermark_offsets, tp, timeout=30))[1]
                places.append(tp)
        self._consumer.assign(places)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def ask(self, prompt: str = "What is 3 + 4?", **fields: Any) -> str:
        """Send one request, checked as clients check it; returns its id."""
        request = InferenceRequest(new_request_id(now_ms()), prompt, **fields)
        self.producer.send(request)
        self.producer.flush(PATIENCE)
        return request.request_id

    def put(self, request: InferenceRequest, partition: int | None = None) -> None:
        """Put a request's record on its partition, unchecked."""
        place = partition
        if place is None:
            place = request_partition(request.request_id, request.priority, self.settings.shards)
        self.put_bytes(self.codec.encode(request), place, request.request_id.encode())

    def put_bytes(
        self,
        value: bytes | None,
        partition: int,
        key: bytes | None = None,
        headers: Any = None,
        *,
        topic: str = REQUESTS,
    ) -> None:
        refused: list[Any] = []
        self._raw.produce(
            topic,
            value,
            key,
            partition,
            headers=headers,
            on_delivery=lambda e, _: refused.append(e) if e else None,
        )
        assert self._raw.flush(30) == 0
        assert not refused, refused

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Follow the topics until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"still waiting for {what}"
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._note(message)

    def finals(self, ids: Iterable[str]) -> dict[str, Result]:
        """Wait until each of these requests has its final result."""
        wanted = set(ids)
        self.until(lambda: self.ended(wanted), "final results")
        return {r.request_id: r for r in self.results() if r.status.terminal and r.request_id in wanted}

    def ended(self, ids: Iterable[str]) -> bool:
        """Whether each of these requests has its final result."""
        return set(ids) <= {r.request_id for r in self.results() if r.status.terminal}

    def dead_letter(self, value: bytes) -> dict[str, str]:
        """Wait for the dead letter with these bytes; returns the cause from its headers."""
        self.until(lambda: any(letter.value == value for letter in self.dead), "a dead letter")
        letter = next(letter for letter in self.dead if letter.value == value)
        return {
            name.removeprefix("tallystream.error."): (text or b"").decode()
            for name, text in letter.headers
            if name.startswith("tallystream.error.")
        }

    def results(self) -> list[Result]:
        return [event for _, _, event in self.events if isinstance(event, Result)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for _, _, event in self.events if isinstance(event, kind)]

    def _note(self, message: Message) -> None:
        if message.topic() == DEAD_LETTERS:
            self.dead.append(Source.of(message))
            return
        value = message.value()
        if value is None:
            return
        assert isinstance(value, bytes)
        self.events.append((message.topic() or "", message.partition() or 0, self.codec.decode(value)))
