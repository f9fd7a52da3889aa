"""How one process stands with the partitions it owns, as values; and when that is a stall.

All times are readings of one monotonic clock, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_OK, _UNAVAILABLE = 200, 503


class HealthStatus(StrEnum):
    """What ``/healthz`` says in one word."""

    STARTING = "starting"
    OK = "ok"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """One input partition.

    Attributes:
        position: the next offset that is not through, as committed; -1 before the first look.
        end: where the records that can be read now end; records there are none between is ``position``.
        held: fetched no further on purpose, or its records wait their turn in the process.
        owned_at: when the process got it.
        moved_at: when ``position`` was last seen to move; ``owned_at`` before that.
        behind_at: when it last changed from nothing to read to something to read.
    """

    topic: str
    partition: int
    position: int
    end: int
    held: bool
    owned_at: float
    moved_at: float
    behind_at: float

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples that an engine draws now, and how many it could."""

    in_use: int
    total: int


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """One process.

    Attributes:
        partitions: what it owns; ``None`` before it was ever told, which may be nothing.
        worked_at: when anything in the process last moved.
        clocks_from: nothing counts from earlier: an outage ended then, or the process was woken.
        reachable: whether Kafka answered the last question.
        rows: of a worker's engine, once it has said.
    """

    partitions: tuple[PartitionHealth, ...] | None
    worked_at: float
    clocks_from: float
    reachable: bool
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """A partition whose records wait while nothing moves."""

    partition: PartitionHealth
    seconds: float

    def __str__(self) -> str:
        place = f"{self.partition.topic}[{self.partition.partition}]"
        return f"{place} has not moved for {self.seconds:.0f} s with a lag of {self.partition.lag}"


def stalled(state: ProcessHealth, now: float, limit: float) -> Stall | None:
    """The partition that has stood still for longest, if one has for ``limit`` seconds.

    A stall is lag without movement while Kafka answers. A partition that is held back stands still only if
    the whole process does.

    Args:
        limit: seconds; 0 never calls anything a stall.
    """
    if not limit or not state.reachable or state.partitions is None:
        return None
    stalls = [
        Stall(each, seconds)
        for each in state.partitions
        if each.lag and (seconds := still_for(each, state, now)) >= limit
    ]
    return max(stalls, key=lambda stall: stall.seconds, default=None)


def still_for(each: PartitionHealth, state: ProcessHealth, now: float) -> float:
    """Seconds for which a partition has not moved, whether it has lag or not."""
    since = max(each.owned_at, each.moved_at, each.behind_at, state.clocks_from)
    return now - (max(since, state.worked_at) if each.held else since)


def document(state: ProcessHealth, now: float, limit: float) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body of ``/healthz``."""
    stall = stalled(state, now, limit)
    if state.partitions is None:
        status, reason = HealthStatus.STARTING, "no partitions have been assigned yet"
    elif stall:
        status, reason = HealthStatus.STALLED, str(stall)
    else:
        status, reason = HealthStatus.OK, ""
    body: dict[str, Any] = {"status": status.value, "kafka": "reachable" if state.reachable else "away"}
    if reason:
        body["reason"] = reason
    if state.rows is not None:
        body["rows"] = {"in_use": state.rows.in_use, "total": state.rows.total}
    body["partitions"] = [_entry(each, now) for each in state.partitions or ()]
    return (_OK if status is HealthStatus.OK else _UNAVAILABLE), body


def _entry(each: PartitionHealth, now: float) -> dict[str, Any]:
    known = each.position >= 0
    return {
        "topic": each.topic,
        "partition": each.partition,
        "position": each.position if known else None,
        "end": each.end if known else None,
        "lag": each.lag if known else None,
        "moved_s_ago": round(now - each.moved_at, 1),
        "held": each.held,
    }
