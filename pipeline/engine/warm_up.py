"""What an engine does before it is ready: run the model in every way it will, and compare."""

from __future__ import annotations

import torch

from pipeline.engine.cache import SlotCache
from pipeline.engine.model import LoadedModel
from pipeline.engine.prefix import Prefix
from pipeline.engine.runner import Runner
from pipeline.errors import ModelLoadError

_TEXT = "The capital of France is Paris, and the capital of Italy is Rome."
"""Of a kind that models know: on tokens in no order numbers of less precision go far apart, and say nothing."""
_TOKENS = 8


def warm_up(loaded: LoadedModel) -> int:
    """Read a prompt in two chunks, step by two tokens and again by the last one, and compare with a plain forward.

    Returns:
        Bytes of keys and values that a token takes.

    Raises:
        ModelLoadError: the model does not keep its past as plain keys and values.
    """
    ids: tuple[int, ...] = tuple(loaded.tokenizer(_TEXT, add_special_tokens=False)["input_ids"])[:_TOKENS]
    cache = SlotCache(1, len(ids))
    runner = Runner(loaded, 1, constant_rows=False, cache=cache)
    prefix = Prefix(ids[:-2])
    try:
        expected = loaded.model(input_ids=torch.tensor([ids], device=loaded.model.device), use_cache=False)
        runner.read(prefix, 2)
        runner.read(prefix, len(prefix.ids))
        cache.reserve(1, len(ids))
        cache.put(0, prefix)
        ends = (len(ids) - 2, len(ids) - 1)
        steps = [runner.decode(0, [ids[begin:]], [begin], fill=True)[0, -1] for begin in ends]
        actual = torch.stack(steps).float()
    except Exception as error:
        message = f"The model can't be run by the slot engine ({error}): choose a plain decoder model"
        raise ModelLoadError(message, field="model") from error
    plain = expected.logits[0, -1].float()
    tolerance = 0.2 if expected.logits.dtype != torch.float32 else 0.01
    if not bool((actual - plain).abs().max() <= tolerance * plain.abs().max()):
        message = "The model gives other results from the slot cache: choose a plain decoder model"
        raise ModelLoadError(message, field="model")
    return prefix.bytes // len(prefix.ids)
