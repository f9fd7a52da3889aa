"""What a client is told of a task, as models: documents are made by them, and the OpenAPI document describes them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from pipeline.events import (
    Chain,
    Delivery,
    DeliveryState,
    ErrorInfo,
    FinishReason,
    InferenceRequest,
    Kind,
    Mode,
    Outcome,
    Result,
    Role,
    Sample,
    Status,
    Vote,
)
from pipeline.store.tasks import Task, TaskPage


class Links(BaseModel):
    """Where the rest is, below the gateway's address."""

    self: str
    events: str
    ws: str
    cancel: str


class ErrorDocument(BaseModel):
    """Why a task, a sample or a delivery failed."""

    code: str
    message: str
    retriable: bool


class VoteDocument(BaseModel):
    """A group of equal answers."""

    answer: str
    count: int
    confidence: float
    score: float
    samples: list[int]
    review: float | None


class UsageDocument(BaseModel):
    """What the task has cost, in tokens and samples."""

    prompt_tokens: int
    completion_tokens: int
    saved_tokens: int
    samples_expected: int
    samples_used: int
    cached_samples: int


class TimingsDocument(BaseModel):
    """When the task passed each hop."""

    created_at: str
    opened_at: str
    first_sample_at: str | None
    last_sample_at: str | None
    finished_at: str


class SampleDocument(BaseModel):
    """A sample; the last four are known once the task has a result."""

    index: int
    role: Role
    path: str
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    mean_logprob: float | None
    seed: int | None
    temperature: float
    started_at: str
    finished_at: str
    worker: str
    cached: bool
    error: ErrorDocument | None
    answer: str | None = None
    score: float | None = None
    outcome: Outcome | None = None
    note: str | None = None


class DeliveryDocument(BaseModel):
    """A callback and where it stands."""

    id: str
    event: str
    url: str
    state: DeliveryState
    attempt: int
    created_at: str
    updated_at: str
    next_due_at: str | None
    status_code: int | None
    error: ErrorDocument | None


class RequestDocument(BaseModel):
    """What was asked, in the form in which it is posted."""

    prompt: str
    messages: list[dict[str, str]]
    sampling: dict[str, Any]
    deadline_ms: int | None
    callback: dict[str, Any] | None
    session: dict[str, str] | None
    tests: str | None
    images: list[str]
    cache: str


class AcceptedDocument(BaseModel):
    """A task that was accepted."""

    id: str
    status: Status
    run: int
    links: Links


class TaskDocument(AcceptedDocument):
    """A task; ``samples``, ``request`` and ``deliveries`` are there when they were asked for."""

    mode: Mode
    kind: Kind
    priority: int
    tenant: str
    created_at: str
    updated_at: str
    finished_at: str | None
    answer: str | None
    chosen_sample: int | None
    confidence: float | None
    why: str
    votes: list[VoteDocument]
    usage: UsageDocument | None
    timings: TimingsDocument | None
    error: ErrorDocument | None
    clarifying_question: str | None
    metadata: dict[str, str]
    samples: list[SampleDocument] | None = None
    request: RequestDocument | None = None
    deliveries: list[DeliveryDocument] | None = None


class TaskList(BaseModel):
    """Newest first; ``cursor`` asks for what comes after, and is null on the last page."""

    tasks: list[TaskDocument]
    cursor: str | None


_INCLUDED = ("samples", "request", "deliveries")
_LATEST = 253_402_300_799_999
"""The last ms of the year 9999: a time in a record is any number, and what is told is a date."""


def task_document(
    task: Task,
    *,
    samples: Sequence[Sample] | None = None,
    deliveries: Sequence[Delivery] | None = None,
    request: bool = False,
) -> dict[str, Any]:
    """A task as it is told, ready for JSON."""
    asked, result = task.request, task.result
    document = TaskDocument(
        id=asked.request_id,
        status=task.status,
        run=asked.run,
        links=links(asked.request_id),
        mode=asked.mode,
        kind=asked.kind,
        priority=asked.priority,
        tenant=asked.tenant,
        created_at=iso(task.accepted_at),
        updated_at=iso(task.updated_at),
        finished_at=_iso_or_none(task.finished_at),
        answer=result.answer if result else None,
        chosen_sample=result.chosen_sample if result else None,
        confidence=result.confidence if result else None,
        why=result.why if result else "",
        votes=[vote_document(vote) for vote in result.votes] if result else [],
        usage=_usage(result) if result else None,
        timings=_timings(result) if result else None,
        error=_error(result.error) if result else None,
        clarifying_question=result.clarifying_question if result else None,
        metadata=asked.metadata,
        samples=None if samples is None else sample_documents(samples, result),
        request=_request(asked) if request else None,
        deliveries=None if deliveries is None else [delivery_document(each) for each in deliveries],
    ).model_dump(mode="json")
    return {name: value for name, value in document.items() if value is not None or name not in _INCLUDED}


def accepted_document(request_id: str, status: Status, run: int) -> dict[str, Any]:
    """What a client is told of a task at once."""
    accepted = AcceptedDocument(id=request_id, status=status, run=run, links=links(request_id))
    return accepted.model_dump(mode="json")


def list_document(page: TaskPage) -> dict[str, Any]:
    return {"tasks": [task_document(task) for task in page.tasks], "cursor": page.cursor}


def links(request_id: str) -> Links:
    """An id may hold any printable character, so it is percent-encoded as one segment."""
    task = f"/v1/tasks/{quote(request_id, safe='')}"
    return Links(self=task, events=f"{task}/events", ws=f"{task}/ws", cancel=task)


def iso(ms: int) -> str:
    """ISO 8601 in UTC with milliseconds: ``2026-01-31T12:00:00.000Z``."""
    ms = min(max(ms, 0), _LATEST)
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000, tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def vote_document(vote: Vote) -> VoteDocument:
    return VoteDocument(
        answer=vote.answer,
        count=vote.count,
        confidence=vote.confidence,
        score=vote.score,
        samples=list(vote.samples),
        review=vote.review,
    )


def sample_documents(samples: Iterable[Sample], result: Result | None) -> list[SampleDocument]:
    chains = {chain.sample_index: chain for chain in result.reasoning} if result else {}
    return [_sample(sample, chains.get(sample.sample_index)) for sample in samples]


def delivery_document(delivery: Delivery) -> DeliveryDocument:
    return DeliveryDocument(
        id=delivery.delivery_id,
        event=delivery.event,
        url=delivery.url,
        state=delivery.state,
        attempt=delivery.attempt,
        created_at=iso(delivery.created_at),
        updated_at=iso(delivery.updated_at),
        next_due_at=_iso_or_none(delivery.next_due_at),
        status_code=delivery.status_code,
        error=_error(delivery.error),
    )


def _sample(sample: Sample, chain: Chain | None) -> SampleDocument:
    return SampleDocument(
        index=sample.sample_index,
        role=sample.role,
        path=sample.path,
        text=sample.text,
        finish_reason=sample.finish_reason,
        prompt_tokens=sample.prompt_tokens,
        completion_tokens=sample.completion_tokens,
        mean_logprob=sample.mean_logprob,
        seed=sample.seed,
        temperature=sample.temperature,
        started_at=iso(sample.timings.started_at),
        finished_at=iso(sample.timings.finished_at),
        worker=sample.worker,
        cached=sample.cached,
        error=_error(sample.error),
        answer=chain.answer if chain else None,
        score=chain.score if chain else None,
        outcome=chain.outcome if chain else None,
        note=chain.note if chain else None,
    )


def _request(request: InferenceRequest) -> RequestDocument:
    sampling, callback, session = request.sampling, request.callback, request.session
    return RequestDocument(
        prompt=request.prompt,
        messages=[{"role": turn.role, "content": turn.content} for turn in request.messages],
        sampling={name: value for name, value in _fields(sampling).items() if value not in (None, ())},
        deadline_ms=request.deadline_ms,
        callback=_fields(callback) if callback else None,
        session=_fields(session) if session else None,
        tests=request.tests,
        images=[base64.b64encode(image).decode() for image in request.images],
        cache=request.cache,
    )


def _usage(result: Result) -> UsageDocument:
    return UsageDocument(**_fields(result.usage))


def _timings(result: Result) -> TimingsDocument:
    at = result.timings
    return TimingsDocument(
        created_at=iso(at.created_at),
        opened_at=iso(at.opened_at),
        first_sample_at=_iso_or_none(at.first_sample_at),
        last_sample_at=_iso_or_none(at.last_sample_at),
        finished_at=iso(at.finished_at),
    )


def _error(error: ErrorInfo | None) -> ErrorDocument | None:
    return ErrorDocument(**_fields(error)) if error else None


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
