"""From a batch record to its tasks, each with what is known of earlier deaths."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.engine.base import Completion
from pipeline.errors import PoisonRecordError
from pipeline.events import Batch, ErrorInfo, FinishReason
from pipeline.kafka.crash_journal import Work, work_of
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Finished
from pipeline.scheduling.waiting import Assigned
from pipeline.tracing.spans import trace_of


def unpack(batch: Batch, source: Source, deaths: Callable[[Work], int]) -> list[Assigned]:
    """The tasks of a batch in their order, which is that of the bits of its progress.

    Args:
        deaths: how many processes have died with a request's part of the batch in hand.
    """
    record, place = work_of(source), (source.topic, source.partition)
    trace = trace_of(source.headers)
    tasks: list[Assigned] = []
    for part, group in enumerate(batch.groups):
        work = record._replace(part=part)
        died = deaths(work)
        for task in group.tasks:
            finished = Finished(place, source.offset, len(tasks))
            tasks.append(Assigned(group, task, finished, batch.created_at, batch.lane, work, died, trace))
    return tasks


def poison_error(assigned: Assigned) -> PoisonRecordError:
    """Why its request is not tried again."""
    return PoisonRecordError(
        f"{assigned.deaths} worker processes died while they drew samples of {assigned.group.request_id}"
    )


def poisoned(assigned: Assigned, now: int) -> Completion:
    """How a task ends that is not run again, so that its window need not wait for its deadline.

    Args:
        now: ms.
    """
    error = poison_error(assigned)
    return Completion(
        key=assigned.key,
        text="",
        finish_reason=FinishReason.ERROR,
        prompt_tokens=0,
        completion_tokens=0,
        mean_logprob=None,
        seed=assigned.task.seed,
        started_at=now / 1000,
        first_token_at=None,
        finished_at=now / 1000,
        error=ErrorInfo(error.code, error.message, retriable=error.retriable),
    )
