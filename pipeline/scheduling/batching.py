"""When a batch closes, and what goes into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.events import TaskGroup


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """Close at ``max_batch`` requests or ``max_wait`` seconds after the first one came.

    A request that meets an idle lane waits for nothing: when no batch has closed within the last
    ``max_wait``, the first request closes one at once, and only what follows on its heels is gathered.
    """

    max_batch: int
    max_wait: float

    def closes_at(self, *, waiting: int, first_at: float, last_closed_at: float) -> float:
        """When the batch of the waiting requests closes, in the same seconds as the arguments."""
        if waiting >= self.max_batch or first_at - last_closed_at >= self.max_wait:
            return first_at
        return min(first_at, last_closed_at) + self.max_wait


def pack(
    groups: Iterable[tuple[TaskGroup, int]], *, max_groups: int, max_bytes: int, max_tasks: int
) -> Iterator[Sequence[TaskGroup]]:
    """Cut groups, each with its size in bytes, into batches that keep the limits, in order.

    A group that is larger than ``max_bytes`` travels alone.
    """
    batch: list[TaskGroup] = []
    size = tasks = 0
    for group, length in groups:
        full = len(batch) >= max_groups or size + length > max_bytes or tasks + len(group.tasks) > max_tasks
        if batch and full:
            yield tuple(batch)
            batch, size, tasks = [], 0, 0
        batch.append(group)
        size += length
        tasks += len(group.tasks)
    if batch:
        yield tuple(batch)
