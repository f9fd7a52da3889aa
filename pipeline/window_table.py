"""Windows as records of a changelog, so that a sample is written once and not with every later one.

A window is its head, at ``id NUL run``, and its samples, at ``id NUL run NUL index``; ids hold no control
characters. A head is the Opened marker as it came. A window that closes before it was written is never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pipeline.events import Opened, Sample, Status
from pipeline.kafka.codec import Codec
from pipeline.scheduling.states import moved
from pipeline.windows import Asked, Cancel, Window, WindowKey

_FIRST, _REVIEW, _CANCEL = b"first", b"review", b"cancel"


class Log(Protocol):
    """Where windows outlive the process."""

    async def log(self, partition: int, writes: Sequence[tuple[bytes, bytes | None]]) -> None: ...


class WindowStore:
    """Gathers what is to be kept of one shard's windows, and writes it durably in one go.

    Args:
        kept: what an earlier owner has left.
    """

    def __init__(self, log: Log, shard: int, kept: Iterable[bytes] = ()) -> None:
        self._log, self._shard = log, shard
        self._writes: dict[bytes, bytes | None] = {}
        self._kept = set(kept)
        """Keys that are in the log, or may be."""

    def opened(self, key: WindowKey, marker: bytes) -> None:
        self._writes[_head(key)] = marker

    def sample(self, key: WindowKey, sample_index: int, record: bytes) -> None:
        self._writes[_part(key, sample_index)] = record

    def first_published(self, key: WindowKey) -> None:
        self._writes[_head(key) + b"\0" + _FIRST] = b"1"

    def review_asked(self, key: WindowKey, asked: Asked) -> None:
        self._writes[_head(key) + b"\0" + _REVIEW] = f"{asked.count} {asked.until}".encode()

    def cancelled(self, key: WindowKey, order: Cancel) -> None:
        """Keep an order that waits for its marker; one that meets it is carried out, and leaves nothing."""
        self._writes[_head(key) + b"\0" + _CANCEL] = f"{order.at} {order.reason}".encode()

    def closed(self, key: WindowKey, window: Window) -> None:
        """Keep nothing: should its records come again, the sink knows that its result is written."""
        for index in window.samples:
            self._drop(_part(key, index))
        for mark in (_FIRST, _REVIEW, _CANCEL):
            self._drop(_head(key) + b"\0" + mark)
        self._drop(_head(key))

    async def flush(self) -> None:
        """Return when everything is durable; what could not be written is written by the next call.

        Raises:
            BrokerDownError: Kafka is away.
        """
        self._kept.update(self._writes)
        await self._log.log(self._shard, list(self._writes.items()))
        self._kept.difference_update(key for key, value in self._writes.items() if value is None)
        self._writes.clear()

    def _drop(self, key: bytes) -> None:
        """Delete what is kept; of what was never written, nothing is."""
        if key in self._kept:
            self._writes[key] = None
        else:
            self._writes.pop(key, None)


def restore(kept: Mapping[bytes, bytes], codec: Codec) -> Mapping[WindowKey, Window]:
    """The windows of one shard from what its changelog holds."""
    windows: dict[WindowKey, Window] = {}
    answered: set[WindowKey] = set()
    orders: dict[WindowKey, Cancel] = {}
    for raw, value in kept.items():
        request_id, run, *rest = raw.decode().split("\0")
        key = (request_id, int(run))
        window = windows.setdefault(key, Window())
        if rest == [_FIRST.decode()]:
            answered.add(key)
        elif rest == [_CANCEL.decode()]:
            at, _, reason = value.decode().partition(" ")
            orders[key] = Cancel(int(at), reason)
        elif rest == [_REVIEW.decode()]:
            count, until = map(int, value.split())
            window.asked = Asked(count, until)
        else:
            event = codec.decode(value)
            if isinstance(event, Opened):
                window.opened = event
            elif isinstance(event, Sample):
                window.add(event)
    for key in answered:
        windows[key].state = moved(Status.RUNNING, Status.FIRST_ANSWER)
    for key, order in orders.items():
        windows[key].cancel(order)
    return windows


def _head(key: WindowKey) -> bytes:
    return f"{key[0]}\0{key[1]}".encode()


def _part(key: WindowKey, sample_index: int) -> bytes:
    return _head(key) + b"\0" + str(sample_index).encode()
