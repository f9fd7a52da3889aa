"""What is kept of a running task's progress, for who joins late or comes back. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from pipeline.events import Progress, ProgressKind
from pipeline.live.feed import Remembered
from pipeline.live.record import Record

_FRAME: Final = 400
"""Bytes of a record in memory beside its text."""


class Ring:
    """Tokens of one task, oldest dropped, and its newest votes.

    Attributes:
        size: bytes, estimated.
        through: offset of the last record that it was given.
    """

    def __init__(self, most: int, lost_to: int) -> None:
        """
        Args:
            most: bytes.
            lost_to: offset of the last record that came before this, -1 if none can have.
        """
        self._most = most
        self._tokens: deque[Record] = deque()
        self._votes: Record | None = None
        self._lost_to, self._lost = lost_to, None if lost_to >= 0 else 0
        self.size, self.through = 0, -1

    def add(self, record: Record) -> None:
        """Keep a record of ``progress``; states are told by other topics too."""
        event = record.event
        self.through = record.offset
        if not isinstance(event, Progress):
            return
        if event.kind is ProgressKind.VOTES:
            self._votes = record
        elif event.kind is ProgressKind.TOKENS:
            self._tokens.append(record)
            self.size += _size(record)
            while self.size > self._most:
                self._drop()

    def clear(self) -> None:
        """Drop all tokens."""
        while self._tokens:
            self._drop()

    def remembered(self) -> Remembered:
        records = [*self._tokens, *([self._votes] if self._votes else [])]
        return Remembered(sorted(records, key=lambda record: record.offset), self._lost_to, self._lost)

    def _drop(self) -> None:
        record = self._tokens.popleft()
        self.size -= _size(record)
        self._lost_to = record.offset
        self._lost = None if self._lost is None else self._lost + 1


class Rings:
    """The rings of all tasks under one bound: the one that was silent for longest is emptied first."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._rings)

    def get(self, request_id: str) -> Ring | None:
        return self._rings.get(request_id)

    def open(self, request_id: str, lost_to: int) -> Ring:
        """The task's ring, made if there is none."""
        if (ring := self._rings.get(request_id)) is None:
            ring = self._rings[request_id] = Ring(self._most_each, lost_to)
        return ring

    def add(self, request_id: str, record: Record) -> None:
        """Keep a record in a ring that is open."""
        ring = self._rings[request_id]
        self._rings.move_to_end(request_id)
        self.size -= ring.size
        ring.add(record)
        self.size += ring.size
        for other in list(self._rings.values()) if self.size > self._most else ():
            self.size -= other.size
            other.clear()
            if self.size <= self._most:
                break

    def drop(self, request_id: str) -> Ring | None:
        """Forget a task's ring, and return what it was."""
        if (ring := self._rings.pop(request_id, None)) is not None:
            self.size -= ring.size
        return ring


def _size(record: Record) -> int:
    assert isinstance(record.event, Progress)
    return _FRAME + len(record.event.text.encode())
