"""What prompt lookup saves and costs, by what is said: a copy, new text, text that misleads, or a model's own."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from pipeline.bench.effort import Effort
from pipeline.bench.engine_contenders import slots
from pipeline.bench.engine_models import NAMED, load, ours
from pipeline.bench.engine_work import Work, work
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.rows import Row
from pipeline.engine.int8 import quality_text
from pipeline.engine.model import LoadedModel
from pipeline.engine.prompts import PromptEncoder
from pipeline.events import Message
from pipeline.settings import Settings

TRIED = 16
_ANSWER = 64


class Saying:
    """A model that takes its time as always, but says what is set, in every row.

    Args:
        begin: the position of the first token that is set.
    """

    def __init__(self, model: Any, begin: int, answer: Sequence[int]) -> None:
        self._model = model
        self._begin = begin
        self._answer = torch.tensor(answer, device=model.device)

    def __call__(self, **inputs: Any) -> Any:
        output = self._model(**inputs)
        if "past_key_values" in inputs:
            places = inputs["position_ids"][:, -output.logits.shape[1] :] + 1 - self._begin
            # The engine's own check stands at the first positions and is let alone.
            if int(places.min()) >= 0:
                said = self._answer[places.clamp(max=len(self._answer) - 1)]
                output.logits.scatter_(-1, said[..., None], 1e4)
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def prompt_lookup(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """With prompt lookup and without, in turn: one row, four and sixteen.

    How often a model repeats itself is the model's; what that is worth is the engine's, so most of what it says is set.
    """
    for name in effort.engine_models:
        loaded = ours(load(name, settings), settings)
        cases = _set_words(loaded) | (_own_words(loaded) if name == NAMED else {})
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        for repeat in range(effort.repeats):
            for said, (saying, asked) in cases.items():
                for rows in (1, 4, 16):
                    say(f"round {repeat + 1} of {effort.repeats}: {name}, {said}, {rows} rows")
                    without, tried = (_seconds(settings, saying, [asked] * rows, most) for most in (0, TRIED))
                    ratios[f"{said}, {rows} rows"].append(without / tried)
        for case, values in ratios.items():
            yield Row(f"{name}, {case}: prompt lookup / none", figure(values), "×")


def _set_words(loaded: LoadedModel) -> dict[str, tuple[LoadedModel, Work]]:
    """By name: a model that says what is set, and what it is asked."""
    asked = work(loaded, random.Random(3), _ANSWER, _ANSWER)
    return {
        said: (replace(loaded, model=Saying(loaded.model, len(asked.ids), answer)), asked)
        for said, answer in _answers(asked, loaded.model.config.vocab_size).items()
    }


def _own_words(loaded: LoadedModel) -> dict[str, tuple[LoadedModel, Work]]:
    """By name: a trained model, and what it answers in its own words."""
    paragraph = quality_text().partition("\n\n")[0]
    asked = {
        "own words to a request to repeat a text": f"Repeat this text word by word:\n\n{paragraph}",
        "own words to a question": f"{paragraph}\n\nWhy did it do no harm?",
    }
    encode = PromptEncoder(loaded.tokenizer).encode
    return {
        name: (loaded, Work(turns := (Message("user", text),), encode(turns), _ANSWER))
        for name, text in asked.items()
    }


def _answers(asked: Work, vocabulary: int) -> dict[str, list[int]]:
    """By name: the prompt again; tokens of which none comes twice; three that do, and another each time."""
    chance = random.Random(4)
    new = chance.sample(range(vocabulary), _ANSWER)
    misleading = [token if place % 4 == 3 else new[place % 4] for place, token in enumerate(new)]
    return {"a copy": list(asked.ids[:_ANSWER]), "new text": new, "misleading text": misleading}


def _seconds(settings: Settings, loaded: LoadedModel, works: Sequence[Work], most: int) -> float:
    with slots(settings, loaded, rows=len(works), lookup_tokens=most) as running:
        began = time.perf_counter()
        running.draw(works)
        return time.perf_counter() - began
