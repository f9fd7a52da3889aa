"""Samples of Abacus, drawn by the pipeline's own engine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from random import Random
from typing import Final

from pipeline.abacus.folder import NAME
from pipeline.abacus.problems import Problem, draw_problem
from pipeline.bench.drawn import sample_of_text
from pipeline.engine.base import Completion, GenerationTask, SamplingParams, TaskKey
from pipeline.engine.factory import create_engine
from pipeline.events import Message, Sample
from pipeline.settings import EngineName, Settings

GREEDY: Final = -1
"""Index of the sample that is drawn without any chance."""
_LONGEST: Final = 64
_ROWS: Final = 32
_PATIENCE: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """One question with its samples by index; ``greedy`` beside them."""

    problem: Problem
    samples: tuple[Sample, ...]
    greedy: Sample


@dataclass(slots=True)
class _Listener:
    """Hands what ends over to the thread that waits."""

    ended: SimpleQueue[Completion] = field(default_factory=SimpleQueue[Completion])

    def tokens(self, key: TaskKey, text: str) -> None:
        pass

    def done(self, completion: Completion) -> None:
        self.ended.put(completion)


def fresh_problems(count: int, seed: int) -> list[Problem]:
    """``count`` different problems; the training has another seed."""
    random = Random(f"test/{seed}")
    found: dict[str, Problem] = {}
    while len(found) < count:
        problem = draw_problem(random)
        found[problem.expression] = problem
    return list(found.values())


def draw(settings: Settings, problems: Sequence[Problem], each: int, temperature: float) -> list[Drawn]:
    """``each`` samples of every problem, and one without chance.

    Raises:
        ModelLoadError: torch and transformers are not installed.
    """
    engine_settings = settings.engine.model_copy(update={"name": EngineName.SLOTS, "rows": _ROWS})
    engine = create_engine(settings.model_copy(update={"model": NAME, "engine": engine_settings}))
    listener, deadline = _Listener(), time.time() + _PATIENCE
    engine.start(listener)
    try:
        for place, problem in enumerate(problems):
            for index in range(GREEDY, each):
                warmth = 0.0 if index == GREEDY else temperature
                params = SamplingParams(
                    temperature=warmth, max_new_tokens=_LONGEST, seed=1_000 * place + index
                )
                prompt = (Message("user", problem.question),)
                engine.submit(GenerationTask(TaskKey(str(place), 0, index), prompt, params, deadline))
        ended = [listener.ended.get() for _ in range(len(problems) * (each + 1))]
    finally:
        engine.close()
    found = {completion.key: _sample(completion) for completion in ended}
    return [_drawn(place, problem, each, found) for place, problem in enumerate(problems)]


def _drawn(place: int, problem: Problem, each: int, found: Mapping[TaskKey, Sample]) -> Drawn:
    samples = tuple(found[TaskKey(str(place), 0, index)] for index in range(each))
    return Drawn(problem, samples, found[TaskKey(str(place), 0, GREEDY)])


def _sample(completion: Completion) -> Sample:
    made = sample_of_text(completion.key.sample_index, completion.text, tokens=completion.completion_tokens)
    return replace(made, mean_logprob=completion.mean_logprob, finish_reason=completion.finish_reason)
