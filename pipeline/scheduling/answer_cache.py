"""Answers that were given before, for requests that allow to be told the same. Pure: time is passed in.

A sample is a function of its task; without a seed it is one draw of several, and who allows the cache takes that draw.
One worker remembers what it drew itself: nothing is shared, and nothing outlives the model that it came from.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import blake2b

import msgspec

from pipeline.engine.base import Completion, GenerationTask
from pipeline.events import FinishReason

_OVERHEAD = 512
"""Bytes of an entry beside its text."""
_OF_A_POSITION = 256


@dataclass(frozen=True, slots=True)
class _Answer:
    completion: Completion
    size: int


class AnswerCache:
    """Least recently used out; seconds of the clock that stamps completions.

    Args:
        most_bytes: of all answers together, estimated; 0: nothing is kept.
        ttl: seconds from when an answer was drawn.
    """

    def __init__(self, most_bytes: int, ttl: float) -> None:
        self._most, self._ttl = most_bytes, ttl
        self._answers: OrderedDict[bytes, _Answer] = OrderedDict()
        self._held = 0

    def put(self, tenant: str, task: GenerationTask, completion: Completion) -> None:
        """Remember an answer that is whole; one that came from here keeps its age."""
        if completion.cached or completion.error or completion.finish_reason is not FinishReason.STOP:
            return
        name = _name(tenant, task)
        self._drop(name)
        size = len(completion.text.encode()) + _OVERHEAD + _OF_A_POSITION * len(completion.positions)
        if size > self._most:
            return
        self._answers[name] = _Answer(completion, size)
        self._held += size
        while self._held > self._most:
            self._drop(next(iter(self._answers)))

    def get(self, tenant: str, task: GenerationTask, now: float) -> Completion | None:
        """The answer to the same question, as this task's own: drawn in no time, of no tokens."""
        name = _name(tenant, task)
        known = self._answers.get(name)
        if known is None:
            return None
        if now - known.completion.finished_at >= self._ttl:
            self._drop(name)
            return None
        self._answers.move_to_end(name)
        return replace(
            known.completion,
            key=task.key,
            prompt_tokens=0,
            completion_tokens=0,
            started_at=now,
            first_token_at=now,
            finished_at=now,
            cached=True,
        )

    def _drop(self, name: bytes) -> None:
        if (known := self._answers.pop(name, None)) is not None:
            self._held -= known.size


def _name(tenant: str, task: GenerationTask) -> bytes:
    """Of everything that a sample hangs on, its seed included; no tenant learns what another one asked."""
    asked = (tenant, task.messages, task.params, task.top_logprobs, task.images, task.path)
    return blake2b(msgspec.json.encode(asked), digest_size=16).digest()
