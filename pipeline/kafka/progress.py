"""Progress: tokens, states and live votes as they come. May be lost, never waits, decides nothing."""

from __future__ import annotations

import contextlib
import threading

from confluent_kafka import KafkaException

from pipeline.engine.base import TaskKey
from pipeline.events import Progress, ProgressKind, Status
from pipeline.kafka.clients import plain_producer
from pipeline.kafka.codec import Codec
from pipeline.settings import Settings
from pipeline.topics import PROGRESS, shard_of

_COALESCE_MS = 50


class ProgressWriter:
    """Writes with acks=1 and without transactions; a full queue drops the record."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._shards = settings.shards
        self._codec = codec
        self._producer = plain_producer(
            settings, acks="1", enable_idempotence=False, queue_buffering_max_messages=10_000
        )

    def state(self, request_id: str, run: int, status: Status, at: int) -> None:
        self.write(Progress(request_id, run, ProgressKind.STATE, at, status))

    def tokens(self, request_id: str, run: int, sample_index: int, text: str, at: int) -> None:
        self.write(Progress(request_id, run, ProgressKind.TOKENS, at, sample_index=sample_index, text=text))

    def write(self, event: Progress) -> None:
        with contextlib.suppress(BufferError, KafkaException):  # e.g. votes with very long answers
            self._producer.produce(
                PROGRESS,
                self._codec.encode(event),
                event.request_id.encode(),
                shard_of(event.request_id, self._shards),
            )
        self._producer.poll(0)


class TokenStream:
    """Gathers the tokens of running samples, so that a sample writes at most 20 records a second."""

    def __init__(self, writer: ProgressWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._text: dict[TaskKey, str] = {}
        self._written_at: dict[TaskKey, int] = {}
        self._silent: set[TaskKey] = set()

    def add(self, key: TaskKey, text: str) -> None:
        """Called on the engine's thread."""
        with self._lock:
            if key not in self._silent:
                self._text[key] = self._text.get(key, "") + text

    def flush(self, now: int) -> None:
        """Write what is due.

        Args:
            now: ms.
        """
        with self._lock:
            due = [key for key in self._text if now - self._written_at.get(key, 0) >= _COALESCE_MS]
            texts = {key: self._text.pop(key) for key in due}
            self._written_at.update(dict.fromkeys(due, now))
        for key, text in texts.items():
            self._writer.tokens(*key, text, now)

    def finished(self, key: TaskKey) -> None:
        """Called on the engine's thread. Of a sample that was so quick that nothing is written, nothing has to be."""
        with self._lock:
            if key not in self._written_at:
                self._text.pop(key, None)

    def again(self, key: TaskKey) -> None:
        """A sample is drawn once more: what is shown already can not be taken back, so nothing is added to it."""
        with self._lock:
            if self._text.pop(key, None) is not None or key in self._written_at:
                self._silent.add(key)

    def end(self, key: TaskKey) -> None:
        """Forget a sample that is published: its record holds the whole text."""
        with self._lock:
            self._text.pop(key, None)
            self._written_at.pop(key, None)
            self._silent.discard(key)
