"""What the engine's tests share: a listener that waits, tasks in a line, models that misbehave on purpose."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from pipeline.engine.base import Completion, Engine, GenerationTask, SamplingParams, TaskKey
from pipeline.engine.model import LoadedModel
from pipeline.engine.slots import SlotEngine
from pipeline.events import Message
from pipeline.settings import Settings, load_settings

PATIENCE = 60.0


class Recorder:
    """A listener that keeps what it hears; every wait ends by an event, never by a guess."""

    def __init__(self) -> None:
        self.completions: list[Completion] = []
        self.pieces: dict[TaskKey, list[str]] = {}
        self._changed = threading.Condition()

    def tokens(self, key: TaskKey, text: str) -> None:
        with self._changed:
            self.pieces.setdefault(key, []).append(text)
            self._changed.notify_all()

    def done(self, completion: Completion) -> None:
        with self._changed:
            self.completions.append(completion)
            self._changed.notify_all()

    def wait_done(self, count: int) -> dict[TaskKey, Completion]:
        self._wait(lambda: len(self.completions) >= count)
        return {completion.key: completion for completion in self.completions}

    def wait_tokens(self, key: TaskKey, pieces: int = 1) -> None:
        self._wait(lambda: len(self.pieces.get(key, [])) >= pieces)

    def wait_started(self, key: TaskKey, tokens: int) -> None:
        """Until a sample has shown so many pieces, or has ended: a token need not show any text."""

        def ended() -> bool:
            return any(completion.key == key for completion in self.completions)

        self._wait(lambda: len(self.pieces.get(key, [])) >= tokens or ended())

    def streamed(self, key: TaskKey) -> str:
        return "".join(self.pieces.get(key, []))

    def _wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, PATIENCE):
                raise TimeoutError(f"{len(self.completions)} completions so far")


def task(
    name: str | int,
    prompt: str = "hello",
    *,
    deadline: float | None = None,
    index: int = 0,
    top_logprobs: int | None = None,
    **params: Any,
) -> GenerationTask:
    return GenerationTask(
        key=TaskKey(str(name), 0, index),
        messages=(Message("user", prompt),),
        params=SamplingParams(**params),
        deadline=time.time() + 600 if deadline is None else deadline,
        top_logprobs=top_logprobs,
    )


def engine_settings(**engine: Any) -> Settings:
    return load_settings(engine={"threads": 1, "rows": 4, "context": 1024, **engine})


@contextmanager
def running(loaded: LoadedModel, listener: Any = None, clock: Callable[[], float] = time.time, **engine: Any):
    """A started slot engine on a ready model, and its recorder."""
    recorder = listener or Recorder()
    settings = engine_settings(**engine)
    context = min(loaded.context, settings.engine.context)
    slots = SlotEngine(settings, load=lambda _: replace(loaded, context=context), clock=clock)
    slots.start(recorder)
    try:
        yield slots, recorder
    finally:
        slots.close()


def run_all(engine: Engine, recorder: Recorder, tasks: Iterable[GenerationTask]) -> list[Completion]:
    """Submit all at once to an engine that has had no other task; completions in the order of the tasks."""
    listed = list(tasks)
    for each in listed:
        assert engine.submit(each)
    found = recorder.wait_done(len(listed))
    return [found[each.key] for each in listed]


def reference(loaded: LoadedModel, prompt: str, max_new_tokens: int) -> list[int]:
    """The tokens that transformers' own greedy ``generate`` gives."""
    text = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([loaded.tokenizer(text, add_special_tokens=False)["input_ids"]])
    output = loaded.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=max_new_tokens
    )
    return output[0, ids.shape[1] :].tolist()


class Altered:
    """A model whose logits, or whose forward, a test changes.

    Args:
        hook: called with the row ids [rows, length], positions [rows, length] and logits [rows, kept,
            vocabulary] of each forward, those after the last tokens; returns the logits to use or raises.
    """

    def __init__(self, model: Any, hook: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        self._model = model
        self.hook = hook

    def __call__(self, **inputs: Any) -> Any:
        output = self._model(**inputs)
        if "past_key_values" not in inputs:
            return output
        logits = self.hook(inputs["input_ids"], inputs["position_ids"], output.logits.clone())
        return SimpleNamespace(logits=logits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class Forwards:
    """A hook that notes how many tokens of a row each forward takes: 1 is a step, more are a chunk."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, ids: Tensor, _positions: Tensor, logits: Tensor) -> Tensor:
        self.seen.append(ids.shape[1])
        return logits


def altered(loaded: LoadedModel, hook: Callable[[Tensor, Tensor, Tensor], Tensor]) -> LoadedModel:
    return replace(loaded, model=Altered(loaded.model, hook))


LATE = 130
"""A position that only long prompts come near."""


def failing_late(loaded: LoadedModel) -> LoadedModel:
    """A model that gives NaN after position ``LATE``, and ends no answer of a long prompt before."""

    def spoil(_ids: Tensor, positions: Tensor, logits: Tensor) -> Tensor:
        logits[positions[:, -1] > LATE - 30, ..., loaded.tokenizer.eos_token_id] = -1000.0
        logits[positions[:, -1] > LATE] = math.nan
        return logits

    return altered(loaded, spoil)


def saying(loaded: LoadedModel, prompt: str, text: str) -> LoadedModel:
    """A model that answers every prompt as long as ``prompt`` with ``text``, then its end token."""
    rendered = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    start = len(loaded.tokenizer(rendered, add_special_tokens=False)["input_ids"])
    plan = [*loaded.tokenizer(text, add_special_tokens=False)["input_ids"], loaded.tokenizer.eos_token_id]

    def force(ids: Tensor, positions: Tensor, logits: Tensor) -> Tensor:
        for row, kept in enumerate(positions[:, -logits.shape[1] :].tolist()):
            for place, position in enumerate(kept):
                if 0 <= position + 1 - start < len(plan):
                    logits[row, place] = -30.0
                    logits[row, place, plan[position + 1 - start]] = 0.0
        return logits

    return altered(loaded, force)


def load_tiny(folder: Path) -> LoadedModel:
    from pipeline.engine.model import load_model

    return load_model(load_settings(model=str(folder)))
