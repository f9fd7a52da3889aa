"""Ways to draw many answers: one after another, in static batches, transformers' manager, and our slots."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers

from pipeline.bench.engine_models import ours
from pipeline.bench.engine_work import Work
from pipeline.engine.base import Completion, GenerationTask, SamplingParams, TaskKey
from pipeline.engine.model import LoadedModel
from pipeline.engine.slots import SlotEngine, thread_count
from pipeline.errors import EngineError
from pipeline.settings import Settings

Draw = Callable[[Sequence[Work]], object]
"""Draws all answers, greedily."""

_LONGEST_WAIT = 3_600.0


class Collector:
    """A listener that keeps the completions."""

    def __init__(self) -> None:
        self.completions: dict[TaskKey, Completion] = {}
        self._changed = threading.Condition()

    def tokens(self, key: TaskKey, text: str) -> None:
        """Text is of no interest here."""

    def done(self, completion: Completion) -> None:
        with self._changed:
            self.completions[completion.key] = completion
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        """Until so many are done."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.completions) >= count, _LONGEST_WAIT)


class Slots:
    """A running slot engine that draws answers."""

    def __init__(self, engine: SlotEngine, collector: Collector) -> None:
        self._engine = engine
        self._collector = collector
        self._submitted = 0

    def submit(self, work: Work) -> TaskKey:
        key = TaskKey("bench", 0, self._submitted)
        self._submitted += 1
        params = SamplingParams(temperature=0.0, max_new_tokens=work.new_tokens)
        self._engine.submit(GenerationTask(key, work.messages, params, time.time() + _LONGEST_WAIT))
        return key

    def wait(self) -> dict[TaskKey, Completion]:
        """All completions, once everything submitted is done.

        Raises:
            EngineError: a sample failed.
        """
        self._collector.wait(self._submitted)
        for completion in self._collector.completions.values():
            if completion.error is not None:
                raise EngineError(f"A sample of the measurement failed: {completion.error.message}")
        return self._collector.completions

    def draw(self, works: Sequence[Work]) -> dict[TaskKey, Completion]:
        for each in works:
            self.submit(each)
        return self.wait()


@contextmanager
def slots(settings: Settings, loaded: LoadedModel, **engine: Any) -> Generator[Slots]:
    """The slot engine on a model; ``engine`` changes its settings."""
    options = settings.engine.model_copy(update={"context": loaded.context, **engine})
    collector = Collector()
    running = SlotEngine(settings.model_copy(update={"engine": options}), load=lambda _: loaded)
    running.start(collector)
    try:
        yield Slots(running, collector)
    finally:
        running.close()


def contenders(settings: Settings, loaded: LoadedModel, rows: int) -> dict[str, Draw]:
    """All ways by name, each with as many threads and at most ``rows`` rows at once."""
    torch.set_num_threads(thread_count(settings.engine))

    packed = ours(loaded, settings)

    def by_slots(works: Sequence[Work]) -> None:
        with slots(settings, packed, rows=rows) as running:
            running.draw(works)

    # The manager changes a model's attention for good.
    managed = copy.deepcopy(loaded.model)
    return {
        "sequential generate": lambda works: [generate(loaded.model, [each]) for each in works],
        "static batches, in order": lambda works: _static(loaded.model, works, rows),
        "static batches, by length": lambda works: _static(
            loaded.model, sorted(works, key=lambda each: each.new_tokens), rows
        ),
        "transformers' manager": lambda works: _managed(managed, works, rows),
        "slots": by_slots,
    }


def generate(model: Any, works: Sequence[Work]) -> None:
    """One call of ``generate``, padded on the left, for the longest answer."""
    width = max(len(each.ids) for each in works)
    ids = torch.zeros((len(works), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, each in enumerate(works):
        ids[row, width - len(each.ids) :] = torch.tensor(each.ids)
        mask[row, width - len(each.ids) :] = 1
    longest = max(each.new_tokens for each in works)
    with torch.inference_mode():
        output = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            do_sample=False,
            max_new_tokens=longest,
            pad_token_id=0,
        )
    if output.shape[1] != width + longest:
        raise EngineError(f"generate drew {output.shape[1] - width} tokens instead of {longest}")


def _static(model: Any, works: Sequence[Work], rows: int) -> None:
    for first in range(0, len(works), rows):
        generate(model, works[first : first + rows])


def _managed(model: Any, works: Sequence[Work], rows: int) -> None:
    module: Any = transformers
    room = sum(len(each.ids) + each.new_tokens for each in works)
    config = module.ContinuousBatchingConfig(
        num_blocks=max(rows, room // 256 + len(works)), max_batch_tokens=512, max_requests_per_batch=rows
    )
    greedy = module.GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
    left = len(works)
    with model.continuous_batching_context_manager(
        generation_config=greedy, continuous_batching_config=config
    ) as manager:
        for each in works:
            manager.add_request(list(each.ids), max_new_tokens=each.new_tokens, eos_token_id=-1)
        while left:
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                left -= 1
            elif result is None and not manager.is_running():
                raise EngineError("transformers' manager stopped by itself")
