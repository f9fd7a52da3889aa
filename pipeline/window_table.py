"""Windows as records of a table, so that a sample is written once and not with every later one.

A window is its head, at ``id NUL run``, and its samples, at ``id NUL run NUL index``; ids hold no control
characters. A head is the Opened marker as it came, or ``closed`` and the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pipeline.events import Opened, Sample
from pipeline.kafka.codec import Codec
from pipeline.topics import shard_of
from pipeline.windows import Window, WindowKey

_CLOSED = b"closed "
_FIRST = b"first"


class WindowStore:
    """Gathers what is to be kept of one shard's windows, and writes it durably in one go."""

    def __init__(self, table: Any, shard: int) -> None:
        self._table, self._shard = table, shard
        self._writes: dict[bytes, bytes | None] = {}

    def opened(self, key: WindowKey, marker: bytes) -> None:
        self._writes[_head(key)] = marker

    def sample(self, key: WindowKey, sample_index: int, record: bytes) -> None:
        self._writes[_part(key, sample_index)] = record

    def first_published(self, key: WindowKey) -> None:
        self._writes[_head(key) + b"\0" + _FIRST] = b"1"

    def closed(self, key: WindowKey, window: Window, closed_at: int) -> None:
        """Keep of a window only that it is closed."""
        for index in window.samples:
            self._writes[_part(key, index)] = None
        if window.first_published:
            self._writes[_head(key) + b"\0" + _FIRST] = None
        self._writes[_head(key)] = _CLOSED + str(closed_at).encode()

    def forgotten(self, key: WindowKey, window: Window) -> None:
        for index in window.samples:
            self._writes[_part(key, index)] = None
        self._writes[_head(key)] = None

    async def flush(self) -> None:
        """Write to the table, and return when its changelog has everything.

        The partition is given: Faust would take that of whatever record its stream handles now.
        """
        writes, self._writes = self._writes, {}
        for key, value in writes.items():
            if value is None:
                self._table.data.pop(key, None)
            else:
                self._table.data[key] = value
        sent = [self._table.send_changelog(self._shard, *item, "raw", "raw") for item in writes.items()]
        await asyncio.gather(*sent)


def restore(kept: Mapping[bytes, bytes], shard: int, shards: int, codec: Codec) -> Mapping[WindowKey, Window]:
    """The windows of one shard from what a recovered table holds."""
    windows: dict[WindowKey, Window] = {}
    for raw, value in kept.items():
        request_id, run, *rest = raw.decode().split("\0")
        if shard_of(request_id, shards) != shard:
            continue
        window = windows.setdefault((request_id, int(run)), Window())
        if not rest and value.startswith(_CLOSED):
            window.closed_at = int(value[len(_CLOSED) :])
        elif rest == [_FIRST.decode()]:
            window.first_published = True
        else:
            event = codec.decode(value)
            if isinstance(event, Opened):
                window.opened = event
            elif isinstance(event, Sample):
                window.samples[event.sample_index] = event
    return windows


def _head(key: WindowKey) -> bytes:
    return f"{key[0]}\0{key[1]}".encode()


def _part(key: WindowKey, sample_index: int) -> bytes:
    return _head(key) + b"\0" + str(sample_index).encode()
