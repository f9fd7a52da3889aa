"""Reading ``control``: which requests need no more work. A worker reads all of it, from now on, as a hint.

A request that was cancelled is stopped here at once. What makes it end is the order on ``samples``, which is
written from the same record and can not be missed (``agents/canceller.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import structlog
from confluent_kafka import OFFSET_END, TopicPartition

from pipeline.errors import DecodeError, DependencyDownError
from pipeline.events import Control
from pipeline.kafka.clients import assigned_consumer, value_of
from pipeline.kafka.codec import Codec
from pipeline.settings import Settings
from pipeline.topics import CONTROL

log = structlog.get_logger(__name__)


class ControlReader:
    """Reads on a thread of its own; a word that is missed costs work that nobody needs, never an answer."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._settings, self._codec = settings, codec
        self._found: SimpleQueue[tuple[tuple[str, int], int]] = SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def drain(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Request ids and runs that were cancelled or decided since the last call, and when: the broker's ms."""
        while not self._found.empty():
            yield self._found.get()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = assigned_consumer(self._settings, enable_partition_eof=False)
        consumer.assign([TopicPartition(CONTROL, 0, OFFSET_END)])
        while not self._stop.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            try:
                event = self._codec.decode(value_of(message))
            except (DecodeError, DependencyDownError) as error:
                log.warning("control record skipped", code=error.code, error=error.message)
                continue
            if isinstance(event, Control):
                self._found.put(((event.request_id, event.run), message.timestamp()[1]))
        consumer.close()
