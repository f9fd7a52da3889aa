"""Which work of one partition is finished: the committed offset and its metadata, as a value.

A record holds one or more tasks that finish in any order. The offset to commit is one past the last
record before which all is finished; what is finished at and above it travels in the offset's metadata,
as ``1;<offset - committed>:<bitmap in hex>,…``. A successor reads it and redoes nothing that is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import ConfigError

METADATA_LIMIT = 3_500
"""Characters; the broker's default for offset.metadata.max.bytes is 4,096."""

_VERSION = "1;"


@dataclass(frozen=True, slots=True)
class Position:
    """What is committed for a partition."""

    offset: int
    metadata: str = ""

    def finished(self) -> dict[int, int]:
        """Offset to the bitmap of its finished tasks (bit i is task i)."""
        if not self.metadata.startswith(_VERSION):
            return {}
        entries = (entry.split(":") for entry in self.metadata[len(_VERSION) :].split(",") if entry)
        return {self.offset + int(delta): int(bits, 16) for delta, bits in entries}


class InFlight:
    """The records of one partition from the lowest unfinished one on."""

    def __init__(self, start: Position) -> None:
        self._next = self._through = start.offset
        self._restored = start.finished()
        self._tasks: dict[int, int] = {}
        self._done: dict[int, int] = {}

    def add(self, offset: int, tasks: int) -> int:
        """Take a record in; returns the bitmap of its tasks that an earlier owner finished."""
        self._next = max(self._next, offset + 1)
        self._tasks[offset] = tasks
        self._done[offset] = self._restored.pop(offset, 0) & _full(tasks)
        done = self._done[offset]
        self._drop_leading()
        return done

    def finish(self, offset: int, task: int) -> None:
        """Mark one task; repeating it, or naming a record that is through, changes nothing."""
        if offset not in self._tasks:
            return
        if not 0 <= task < self._tasks[offset]:
            raise ConfigError(f"record {offset} has {self._tasks[offset]} tasks, none with index {task}")
        self._done[offset] |= 1 << task
        self._drop_leading()

    def position(self) -> Position:
        """What to commit now.

        It moves when something is finished, not when a record is taken in: markers of transactions leave gaps
        between records, and stepping over one would cost a transaction of its own.
        """
        lowest = self._through
        done = self._done | {offset: bits for offset, bits in self._restored.items() if offset >= self._next}
        entries = ",".join(f"{offset - lowest}:{bits:x}" for offset, bits in sorted(done.items()) if bits)
        return Position(lowest, _VERSION + entries if entries else "")

    @property
    def unfinished(self) -> bool:
        """Whether a record that was taken in has a task left."""
        return bool(self._tasks)

    def room(self, tasks: int, records: int = 1) -> bool:
        """Whether more records of so many tasks each still fit the metadata, whatever finishes when.

        While restored records are still to be read again there is room: they fitted before.
        """
        if any(offset >= self._next for offset in self._restored):
            return True
        held = sum(map(_entry_size, self._tasks.values()))
        return len(_VERSION) + held + records * _entry_size(tasks) <= METADATA_LIMIT

    def _drop_leading(self) -> None:
        for offset in sorted(self._tasks):
            if self._done[offset] != _full(self._tasks[offset]):
                return
            del self._tasks[offset], self._done[offset]
            self._through = offset + 1


def _full(tasks: int) -> int:
    return (1 << tasks) - 1


def _entry_size(tasks: int) -> int:
    return len("4294967296:,") + (tasks + 3) // 4
