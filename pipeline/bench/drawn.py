"""Samples made for a measurement, from texts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.events import FinishReason, Role, Sample, SampleTimings


def sample_of_text(index: int, text: str, *, probability: float = 0.5, tokens: int = 1) -> Sample:
    """A finished sample; ``probability`` is the geometric mean of its tokens'."""
    return Sample(
        request_id="bench",
        run=0,
        sample_index=index,
        role=Role.ANSWER,
        path="direct",
        text=text,
        finish_reason=FinishReason.STOP,
        prompt_tokens=1,
        completion_tokens=tokens,
        mean_logprob=math.log(max(probability, 1e-9)),
        seed=index,
        temperature=0.5,
        timings=SampleTimings(0, 0, 0, index),
        worker="bench",
    )


def samples_of(texts: Sequence[str]) -> list[Sample]:
    return [sample_of_text(index, text) for index, text in enumerate(texts)]
