"""From one request to its sample tasks and the marker that opens its window."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from pipeline.errors import InvalidRequestError, TallystreamError
from pipeline.events import (
    CachePolicy,
    ErrorInfo,
    InferenceRequest,
    Kind,
    Mode,
    Opened,
    Role,
    SampleTask,
    TaskGroup,
)
from pipeline.language import language_of
from pipeline.scheduling.modes import PROFILES, Profile, messages_on, path_of, profile_of, role_of
from pipeline.scheduling.validate import check_content
from pipeline.settings import LimitSettings

_FUTURE_SLACK_MS = 60_000
LONGEST_QUESTION = 8_000
"""Characters of a question that reviews repeat; with two answers beside it, a longer one would crowd them out."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a request becomes.

    Attributes:
        groups: lane and sample tasks that share a prompt; empty when the request is refused.
    """

    opened: Opened
    groups: tuple[tuple[int, TaskGroup], ...]


def expand(
    request: InferenceRequest,
    *,
    appended_at: int,
    now: int,
    limits: LimitSettings,
    refusal: TallystreamError | None = None,
    trace: str = "",
) -> Expansion:
    """Expand a request whose identity is good.

    Args:
        appended_at: the broker's time of the record in ms.
        now: ms.
        refusal: why its record alone makes it unservable.
        trace: that what follows goes on with.
    """
    created_at, own = created_at_of(request, appended_at), own_deadline_ms(request.mode, limits)
    profile = profile_of(request)
    count = profile.samples if request.sampling.n is None else request.sampling.n
    error = refusal
    try:
        check_content(request, limits)
    except InvalidRequestError as refused:
        error = error or refused
    deadline_at = created_at + (own if error else request.deadline_ms or own)
    opened = Opened(
        request_id=request.request_id,
        run=request.run,
        tenant=request.tenant,
        priority=request.priority,
        mode=request.mode,
        kind=request.kind,
        created_at=created_at,
        opened_at=now,
        deadline_at=deadline_at,
        expected=0 if error else count,
        callback=request.callback,
        metadata=request.metadata,
        error=ErrorInfo(error.code, error.message, error.retriable) if error else None,
        language="en" if error else language_of(_asked(request)),
        question="" if error else _question(request),
        max_new_tokens=0 if error else request.sampling.max_new_tokens or profile.max_new_tokens,
        tests=request.tests if request.kind is Kind.CODE and not error else None,
        session=None if error else request.session,
        trace=trace,
    )
    if error or deadline_at <= now:  # the window ends it, and no model is kept busy with it
        return Expansion(opened, ())
    return Expansion(opened, _groups(request, profile, count, opened))


def created_at_of(request: InferenceRequest, appended_at: int) -> int:
    """When the clock of the deadline starts (ms).

    Args:
        appended_at: the broker's time of the record; it stands in for a created_at that is missing or lies in
            the future, so that a producer's wrong clock moves no deadline.
    """
    told = request.created_at
    return told if 0 < told <= appended_at + _FUTURE_SLACK_MS else appended_at


def own_deadline_ms(mode: Mode, limits: LimitSettings) -> int:
    """The deadline of a request that names none."""
    return limits.deadline_deep_ms if mode is Mode.DEEP else limits.deadline_ms


def _asked(request: InferenceRequest) -> str:
    return request.messages[-1].content if request.messages else request.prompt


def _question(request: InferenceRequest) -> str:
    """What a review round would repeat; a judge that is shown no image can not judge what is seen on one."""
    if request.mode not in (Mode.DEEP, Mode.OPEN) or request.kind is Kind.CODE or request.images:
        return ""
    turns = request.messages
    said = "\n".join(f"{turn.role}: {turn.content}" for turn in turns) if len(turns) > 1 else _asked(request)
    return said if len(said) <= LONGEST_QUESTION else ""


def _groups(
    request: InferenceRequest, profile: Profile, count: int, opened: Opened
) -> tuple[tuple[int, TaskGroup], ...]:
    def shape(index: int) -> tuple[str, str]:
        return role_of(profile, index).value, path_of(profile, index)

    groups: list[tuple[int, TaskGroup]] = []
    for _, members in groupby(sorted(range(count), key=lambda index: (shape(index), index)), key=shape):
        indices = list(members)
        role = role_of(profile, indices[0])
        path = path_of(profile, indices[0])
        drawn = PROFILES[Mode.FAST] if role is Role.FIRST else profile
        lane = max(request.priority - 1, 0) if role is Role.FIRST else request.priority
        sampling = request.sampling
        groups.append(
            (
                lane,
                TaskGroup(
                    request_id=request.request_id,
                    run=request.run,
                    tenant=request.tenant,
                    priority=request.priority,
                    mode=request.mode,
                    kind=request.kind,
                    path=path,
                    messages=messages_on(path, request),
                    temperature=drawn.temperature if sampling.temperature is None else sampling.temperature,
                    top_p=1.0 if sampling.top_p is None else sampling.top_p,
                    max_new_tokens=min(sampling.max_new_tokens or drawn.max_new_tokens, drawn.max_new_tokens)
                    if role is Role.FIRST
                    else sampling.max_new_tokens or drawn.max_new_tokens,
                    created_at=opened.created_at,
                    deadline_at=opened.deadline_at,
                    tasks=tuple(
                        SampleTask(i, role, None if sampling.seed is None else sampling.seed + i)
                        for i in indices
                    ),
                    stop=sampling.stop,
                    images=request.images,
                    top_k=sampling.top_k or 0,
                    min_p=sampling.min_p or 0.0,
                    repetition_penalty=sampling.repetition_penalty or 1.0,
                    top_logprobs=sampling.top_logprobs or 0,
                    cache=request.mode is Mode.FAST and request.cache is CachePolicy.ALLOW,
                    trace=opened.trace,
                ),
            )
        )
    return tuple(groups)
