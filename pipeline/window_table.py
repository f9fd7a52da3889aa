"""Windows as records of a table, so that a sample is written once and not with every later one.

A window is its head, at ``id NUL run``, and its samples, at ``id NUL run NUL index``; ids hold no control
characters. A head is the Opened marker as it came, or ``closed`` and the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pipeline.events import Opened, Sample
from pipeline.kafka.codec import Codec
from pipeline.windows import Window, WindowKey

_CLOSED = b"closed "
_FIRST = b"first"


def head_key(key: WindowKey) -> bytes:
    return f"{key[0]}\0{key[1]}".encode()


def sample_key(key: WindowKey, sample_index: int) -> bytes:
    return f"{key[0]}\0{key[1]}\0{sample_index}".encode()


def first_key(key: WindowKey) -> bytes:
    """Where it is kept that the first answer is out."""
    return head_key(key) + b"\0" + _FIRST


def closed_value(closed_at: int) -> bytes:
    return _CLOSED + str(closed_at).encode()


def keys_of(key: WindowKey, window: Window) -> Iterator[bytes]:
    """Every key that a window may have written, its head's apart."""
    yield from (sample_key(key, index) for index in window.samples)
    if window.first_published:
        yield first_key(key)


def request_id_of(table_key: bytes) -> str:
    return table_key.partition(b"\0")[0].decode()


def restore(items: Iterable[tuple[bytes, bytes]], codec: Codec) -> Mapping[WindowKey, Window]:
    """Windows from a table's items."""
    windows: dict[WindowKey, Window] = {}
    for raw, value in items:
        request_id, run, *rest = raw.decode().split("\0")
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
