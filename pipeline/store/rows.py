"""What one run of a request is in the view, and what a record changes of it. Pure.

Topics are not read in step, so a result may come before its request. Whatever the order in which records of
different partitions come, the row that they leave is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from pipeline.events import Event, InferenceRequest, Opened, Result, Role, Sample, Status
from pipeline.scheduling.expand import created_at_of, own_deadline_ms
from pipeline.scheduling.states import latest
from pipeline.settings import LimitSettings

_NEVER = 2**62
"""A deadline may be any number, and what is added to it must stay one that the view can hold."""
BATCH = "batch"
"""The name in a request's metadata by which its like are listed together."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that the view has taken in.

    Attributes:
        at: broker's time, ms.
    """

    topic: str
    partition: int
    offset: int
    at: int
    event: Event


class Stage(IntEnum):
    """What a run waits for."""

    OVER = 0
    """For nothing any more, or nobody knows that it was asked."""
    WAITING = 1
    OPENED = 2
    RUNNING = 3


@dataclass(slots=True)
class Row:
    """A run of a request; the times are the broker's ms.

    Attributes:
        accepted_at, partition, offset: of the earliest record that asks it; ``None``: none was read yet, and nobody
            is shown the row.
        newest: no later run of its id is known.
        revision: of its newest result; -1 before there is any.
        due_at: when it has to have ended.
        overdue: that time has passed, and it is not waited for any more.
        gone: its records are not kept any more.
    """

    id: int
    request_id: str
    run: int
    tenant: str = ""
    priority: int = 0
    batch: str | None = None
    status: Status = Status.PENDING
    accepted_at: int | None = None
    partition: int = 0
    offset: int = 0
    newest: bool = False
    updated_at: int = 0
    opened_at: int | None = None
    first_sample_at: int | None = None
    finished_at: int | None = None
    expected: int | None = None
    samples: int = 0
    revision: int = -1
    due_at: int = 0
    overdue: bool = False
    gone: bool = False

    @property
    def stage(self) -> Stage:
        if self.accepted_at is None or self.finished_at is not None or self.overdue or self.gone:
            return Stage.OVER
        if self.first_sample_at is not None:
            return Stage.RUNNING
        return Stage.WAITING if self.opened_at is None else Stage.OPENED


@dataclass(frozen=True, slots=True)
class Keeping:
    """For how long what is kept.

    Attributes:
        records: ms from a run's end until its records are dropped.
        rows: ms from then until nothing is known of it.
    """

    records: int
    rows: int

    def expires_at(self, row: Row) -> int:
        """When the row is to be looked at: its records are dropped then, or it is.

        A run without a result, which the topic may have dropped before it was read, has ended by its deadline.
        """
        end = row.finished_at if row.finished_at is not None else max(row.due_at, row.updated_at)
        return end + self.records + (self.rows if row.gone else 0)


def ask(row: Row, stored: Stored, request: InferenceRequest, limits: LimitSettings) -> bool:
    """Take in a record that asks the run.

    Returns:
        whether it is the earliest that is known, and so the one that counts.
    """
    row.updated_at = max(row.updated_at, stored.at)
    place = stored.at, stored.partition, stored.offset
    if row.accepted_at is not None and (row.accepted_at, row.partition, row.offset) <= place:
        return False
    row.accepted_at, row.partition, row.offset = place
    row.tenant, row.priority, row.batch = request.tenant, request.priority, request.metadata.get(BATCH)
    if row.opened_at is None:
        own = request.deadline_ms or own_deadline_ms(request.mode, limits)
        row.due_at = _due(created_at_of(request, stored.at), own)
    return True


def tell(row: Row, stored: Stored) -> None:
    """Take in what became of the run; a record is passed once only, and those of one partition in order."""
    row.updated_at = max(row.updated_at, stored.at)
    match stored.event:
        case Opened() as opened:
            row.opened_at = stored.at
            row.expected = opened.expected
            row.due_at = _due(opened.created_at, opened.deadline_at - opened.created_at)
        case Sample() as sample:
            row.samples += sample.role is not Role.REVIEW
            row.first_sample_at = min(row.first_sample_at or stored.at, stored.at)
            row.status = latest(row.status, Status.RUNNING)
        case Result() as result:
            if result.status.terminal:
                row.finished_at = min(row.finished_at or stored.at, stored.at)
                row.gone = False
            if result.revision > row.revision:
                row.revision, row.status = result.revision, result.status
        case _:
            raise TypeError(f"a {type(stored.event).__name__} tells nothing of a run")


def _due(created_at: int, deadline_ms: int) -> int:
    """A window is closed within 1.1 times the deadline, whatever happens."""
    return max(0, min(created_at + deadline_ms + deadline_ms // 10, _NEVER))
