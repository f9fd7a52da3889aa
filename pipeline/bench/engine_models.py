"""What the engine's figures are measured on: the model that the settings name, and a tiny random one."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
import transformers

from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.slots import tune
from pipeline.settings import Settings

NAMED, TINY = "model", "tiny"
_TINY_CONTEXT = 2048
ROWS: Final = 16
"""That decode side by side, where a measure does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward of an engine: rows, tokens of each, when it began and ended (monotonic seconds)."""

    rows: int
    tokens: int
    began: float
    ended: float

    @property
    def is_step(self) -> bool:
        return self.tokens == 1


@dataclass(slots=True)
class Watched:
    """A model that notes each forward that has a cache."""

    model: Any
    forwards: list[Forward] = field(default_factory=list[Forward])

    def __call__(self, **inputs: Any) -> Any:
        began = time.perf_counter()
        output = self.model(**inputs)
        rows, tokens = inputs["input_ids"].shape
        self.forwards.append(Forward(rows, tokens, began, time.perf_counter()))
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class ByteTokenizer:
    """A token a byte, as much of a tokenizer as the engine needs."""

    chat_template = None
    bos_token_id = None
    eos_token_id = None

    def __call__(self, text: str, **_options: object) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def decode(self, ids: Sequence[int], **_options: object) -> str:
        return bytes(ids).decode(errors="replace")


def load(name: str, settings: Settings) -> LoadedModel:
    """One of the models above, without tokens that end an answer: every answer is as long as is asked for.

    Raises:
        ModelLoadError: as ``load_model``.
    """
    if name == TINY:
        return LoadedModel(_tiny(), ByteTokenizer(), _TINY_CONTEXT, frozenset())
    loaded = load_model(settings)
    loaded.model.config.eos_token_id = loaded.model.generation_config.eos_token_id = None
    return replace(loaded, eos_ids=frozenset())


def ours(loaded: LoadedModel, settings: Settings) -> LoadedModel:
    """A copy of the model as the slot engine has it: the other contenders have it as transformers does."""
    model = copy.deepcopy(loaded.model)
    tune(model, settings.engine.model_copy(update={"rows": ROWS}))
    return replace(loaded, model=model)


def _tiny() -> Any:
    """About five million parameters, random: what a step costs beside its matrices."""
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=_TINY_CONTEXT,
        pad_token_id=0,
    )
    config.eos_token_id = config.bos_token_id = None
    numbers: Any = torch.random
    with numbers.fork_rng():
        numbers.manual_seed(0)
        return transformers.LlamaForCausalLM(config).eval()
