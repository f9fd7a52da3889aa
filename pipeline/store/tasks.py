"""What the view answers: tasks, pages of them, and how many wait.

A task is a request as its client sees it. Every time is in milliseconds since 1970, and the broker's.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.events import PRIORITIES, InferenceRequest, Result, Status


@dataclass(frozen=True, slots=True)
class Task:
    """The newest run of a request.

    Attributes:
        request: as it was asked.
        status: the newest known, by ``pipeline.scheduling.states``.
        accepted_at: when Kafka took the request.
        opened_at: when its window was opened; ``None`` while it waits for the batcher.
        first_sample_at: when the first of its samples came.
        finished_at: when its final result came.
        updated_at: when anything was last heard of it.
        expected: samples that it is to have, once that is known.
        samples: that have come.
        result: the newest revision, the first answer's among them; ``None`` before there is any, and again when it
            is not kept any more.
        gone: its result was kept for as long as results are.
    """

    request: InferenceRequest
    status: Status
    accepted_at: int
    updated_at: int
    opened_at: int | None = None
    first_sample_at: int | None = None
    finished_at: int | None = None
    expected: int | None = None
    samples: int = 0
    result: Result | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks of a list; ``None`` and empty are all of them.

    Attributes:
        since, until: of ``accepted_at``, the first in, the second out.
        batch: value of the metadata ``batch``.
    """

    tenant: str | None = None
    statuses: tuple[Status, ...] = ()
    since: int | None = None
    until: int | None = None
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Newest first; ``cursor`` asks for what comes after, and is ``None`` on the last page."""

    tasks: tuple[Task, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """One priority.

    Attributes:
        waiting: requests of which no sample came and that have not ended.
        opened: those of them that the batcher has routed: they wait for the engine.
        running: requests with a sample that have not ended.
        oldest_at: when the oldest that waits was accepted.
    """

    waiting: int = 0
    opened: int = 0
    running: int = 0
    oldest_at: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What there is to do, by priority (six lanes).

    Attributes:
        unread: records on ``requests`` that the view has not read yet: requests that wait for all one knows.
        finished_per_second: over the last minute.
        as_of: when Kafka was last heard (this machine's ms); while it is away the rest is as it was then.
    """

    lanes: tuple[LaneLoad, ...]
    unread: int = 0
    finished_per_second: float = 0.0
    as_of: int = 0

    @property
    def waiting(self) -> int:
        return self.unread + sum(lane.waiting for lane in self.lanes)

    @property
    def opened(self) -> int:
        return sum(lane.opened for lane in self.lanes)


NO_LOAD = Load((LaneLoad(),) * PRIORITIES)
"""Before anything is known."""
