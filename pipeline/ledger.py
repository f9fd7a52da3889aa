"""What a process tells of itself, and what is measured of it, gathered for its health. For any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeline.health import PartitionHealth, ProcessHealth, Rows
from pipeline.kafka.records import Place


@dataclass(frozen=True, slots=True)
class Standing:
    """Where Kafka has a partition.

    Attributes:
        position: the next offset that is not through; ``end`` if no record is left before it.
        metadata: of the committed offset; samples of one batch move it before the offset moves.
        end: of what a read_committed reader can read.
    """

    position: int
    metadata: str
    end: int


class Ledger:
    """The health of one process. The agent says what it owns and that it works; the watchdog measures.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        now = clock()
        self._partitions: dict[Place, PartitionHealth] | None = None
        self._metadata: dict[Place, str] = {}
        self._worked_at = self._clocks_from = now
        self._reachable = True
        self._rows: Rows | None = None

    @property
    def state(self) -> ProcessHealth:
        with self._lock:
            partitions = None if self._partitions is None else tuple(self._partitions.values())
            return ProcessHealth(partitions, self._worked_at, self._clocks_from, self._reachable, self._rows)

    @property
    def owned(self) -> list[Place]:
        with self._lock:
            return list(self._partitions or ())

    def own(self, places: Mapping[Place, bool] | None) -> None:
        """Exactly these are owned now, each held back or not; ``None``: it is not known yet."""
        if places is None:
            return
        with self._lock:
            before = self._partitions or {}
            self._partitions = {
                place: self._held(before[place], held) if place in before else self._new(place, held)
                for place, held in places.items()
            }

    def drawing(self, in_use: int, free: int) -> None:
        """So many samples are drawn now, and so many more could be."""
        self._rows = Rows(in_use, in_use + free)

    def worked(self) -> None:
        """Something moved that no committed offset shows, such as a token."""
        self._worked_at = self._clock()

    def waited(self) -> None:
        """The process knows what it waits for, and says so in its log: no clock runs."""
        self._clocks_from = self._clock()

    def waiting(self, also: Callable[[], None]) -> Callable[[], None]:
        """``waited`` and then ``also``, as one call."""

        def both() -> None:
            self.waited()
            also()

        return both

    def measured(self, standings: Mapping[Place, Standing]) -> None:
        """Kafka answered."""
        with self._lock:
            now = self._clock()
            if not self._reachable:
                self._reachable, self._clocks_from = True, now
            owned = self._partitions or {}
            for place in standings.keys() & owned.keys():
                owned[place] = self._moved(owned[place], standings[place], now)
                self._metadata[place] = standings[place].metadata

    def unreachable(self) -> None:
        """Kafka did not answer."""
        with self._lock:
            self._reachable = False

    def _new(self, place: Place, held: bool) -> PartitionHealth:
        now = self._clock()
        return PartitionHealth(*place, -1, -1, held, now, now, now)

    def _held(self, each: PartitionHealth, held: bool) -> PartitionHealth:
        return each if each.held is held else replace(each, held=held)

    def _moved(self, each: PartitionHealth, seen: Standing, now: float) -> PartitionHealth:
        place = each.topic, each.partition
        first = each.position < 0
        if not first and (each.position, self._metadata.get(place)) != (seen.position, seen.metadata):
            each = replace(each, moved_at=now)
            self._worked_at = now
        if not each.lag and seen.end > seen.position:
            each = replace(each, behind_at=now)
        return replace(each, position=seen.position, end=seen.end)
