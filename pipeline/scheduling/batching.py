"""When a batch closes, and what goes into it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.events import TaskGroup

_RECENT, _USUAL = 1.0, 60.0
"""Seconds over which arrivals count for the rate now, and for what is usual."""
_BURST = 10.0


class Arrivals:
    """How often requests come, as exponentially weighted moving averages. Times in seconds of one clock."""

    def __init__(self) -> None:
        self._recent, self._usual, self._at = 0.0, 0.0, -math.inf

    def note(self, count: int, now: float) -> None:
        """So many came since the last call."""
        passed = now - self._at
        self._recent = self._recent * math.exp(-passed / _RECENT) + count / _RECENT
        self._usual = self._usual * math.exp(-passed / _USUAL) + count / _USUAL
        self._at = now

    @property
    def rate(self) -> float:
        """Requests a second, as of the last arrival."""
        return self._recent

    @property
    def burst(self) -> bool:
        """They come ten times as fast as usual."""
        return self._recent >= _BURST * self._usual


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Close at ``max_batch`` requests, or when waiting is over.

    A request waits only where that fills its batch: when, at the rate at which they come, ``max_wait`` brings
    ``max_batch`` of them. It never waits longer than ``max_wait``, in a burst ``burst_wait``; in seconds.
    """

    max_batch: int
    max_wait: float
    burst_wait: float

    def closes_at(self, *, waiting: int, first_at: float, arrivals: Arrivals) -> float:
        """When the batch of the waiting requests closes, in the same seconds as the arguments."""
        if waiting >= self.max_batch or arrivals.rate * self.max_wait < self.max_batch:
            return first_at
        return first_at + min(self.max_wait, self.burst_wait if arrivals.burst else self.max_wait)


def pack(
    groups: Iterable[tuple[TaskGroup, int]],
    *,
    max_groups: int,
    max_bytes: int,
    max_tasks: int,
    max_tokens: int,
) -> Iterator[Sequence[TaskGroup]]:
    """Cut groups, each with its size in bytes, into batches that keep the limits, in order.

    A group, the samples of one prompt, is never cut: one that is larger than ``max_bytes``, or whose samples may
    draw more than ``max_tokens`` together, travels alone.
    """
    batch: list[TaskGroup] = []
    size = tasks = tokens = 0
    for group, length in groups:
        count = len(group.tasks)
        longest = count * group.max_new_tokens
        full = (
            len(batch) >= max_groups
            or size + length > max_bytes
            or tasks + count > max_tasks
            or tokens + longest > max_tokens
        )
        if batch and full:
            yield tuple(batch)
            batch, size, tasks, tokens = [], 0, 0, 0
        batch.append(group)
        size += length
        tasks += count
        tokens += longest
    if batch:
        yield tuple(batch)
