"""Between the events of Kafka and the engine's own values."""

from __future__ import annotations

from dataclasses import replace

from pipeline.engine.base import Completion, GenerationTask, SamplingParams
from pipeline.events import FinishReason, Sample, SampleTimings
from pipeline.fitting import first_bytes
from pipeline.scheduling.logprobs import packed
from pipeline.scheduling.waiting import Assigned
from pipeline.settings import EngineSettings

LONGEST_TEXT = 256 * 1024
"""Bytes of a sample's text. The largest sampling.max_new_tokens gives about a tenth; escaped as JSON it
can be six times as long, and a callback's body holds it twice."""
_LONGEST_MESSAGE = 1_000
_LONG = 1_024
"""New tokens; what may have more has more time."""


def generation_task(assigned: Assigned, *, now: int, limits: EngineSettings) -> GenerationTask:
    """The engine's task; it ends at its own time-out, counted from ``now`` (ms), or with its request."""
    group = assigned.group
    long = group.max_new_tokens > _LONG
    timeout = limits.long_sample_timeout if long else limits.sample_timeout
    return GenerationTask(
        key=assigned.key,
        messages=group.messages,
        params=SamplingParams(
            temperature=group.temperature,
            top_p=group.top_p,
            top_k=group.top_k,
            min_p=group.min_p,
            repetition_penalty=group.repetition_penalty,
            max_new_tokens=group.max_new_tokens,
            seed=assigned.task.seed,
            stop=group.stop,
        ),
        deadline=min(now / 1000 + timeout, group.deadline_at / 1000),
        top_logprobs=group.top_logprobs or None,
        images=group.images,
        path=group.path,
    )


def sample_of(assigned: Assigned, completion: Completion, *, worker: str) -> Sample:
    """The event of a finished sample; a text beyond all measure is cut as one that ran out of tokens is."""
    group, task, first = assigned.group, assigned.task, completion.first_token_at
    text, error = first_bytes(completion.text, LONGEST_TEXT), completion.error
    whole = text == completion.text
    return Sample(
        request_id=group.request_id,
        run=group.run,
        sample_index=task.sample_index,
        role=task.role,
        path=group.path,
        text=text,
        finish_reason=completion.finish_reason if whole else FinishReason.LENGTH,
        prompt_tokens=completion.prompt_tokens,
        completion_tokens=completion.completion_tokens,
        mean_logprob=completion.mean_logprob,
        seed=completion.seed,
        temperature=group.temperature,
        timings=SampleTimings(
            queued_at=assigned.queued_at,
            started_at=_ms(completion.started_at),
            first_token_at=None if first is None else _ms(first),
            finished_at=_ms(completion.finished_at),
        ),
        worker=worker,
        error=error and replace(error, message=error.message[:_LONGEST_MESSAGE]),
        logprobs=packed(completion.positions, group.top_logprobs, whole=whole),
        cached=completion.cached,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
