"""Samples for the tests of the vote."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.events import ErrorInfo, FinishReason, Role, Sample, SampleTimings


def sample(
    index: int,
    text: str,
    *,
    confidence: float | None = 0.5,
    role: Role = Role.ANSWER,
    finish: FinishReason = FinishReason.STOP,
    error: str | None = None,
    finished_at: int = 100,
) -> Sample:
    return Sample(
        request_id="r",
        run=0,
        sample_index=index,
        role=role,
        path="direct",
        text=text,
        finish_reason=finish,
        prompt_tokens=3,
        completion_tokens=5,
        mean_logprob=None if confidence is None else math.log(max(confidence, 1e-9)),
        seed=index,
        temperature=0.5,
        timings=SampleTimings(1, 2, 3, finished_at),
        worker="w",
        error=None if error is None else ErrorInfo(error, "broken"),
    )


def samples(texts: Sequence[str], confidences: Sequence[float] | None = None) -> list[Sample]:
    return [
        sample(index, text, confidence=0.5 if confidences is None else confidences[index])
        for index, text in enumerate(texts)
    ]
