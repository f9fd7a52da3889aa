"""Int8 weights: a fourth of the memory of float32, and fewer bytes to read for a token.

Weights only, symmetric, one scale for each output channel; activations, embeddings and the output layer stay as
they are. (Dynamic int8, which also rounds activations, ruins small models.)
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.errors import ModelLoadError

MOST_WORSE = 1.05
"""Perplexity with int8 weights over that without, at most."""
_TEXT = Path(__file__).with_name("quality_text.txt")
_TOKENS = 256
"""Of the text, so that a start takes little longer. On the whole text SmolLM2's ratio is 0.995."""
_LARGEST = 127


class Int8Linear(nn.Module):
    """A linear layer whose weights are int8 times a scale for each output channel."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        # A channel of nothing but zeros keeps them at any scale.
        scale = (weight.float().abs().amax(1) / _LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
        rounded = (weight.float() / scale[:, None]).round().to(torch.int8)
        self.weight = nn.Parameter(rounded, requires_grad=False)
        self.scale = nn.Parameter(scale.to(weight.dtype), requires_grad=False)
        self.bias: Tensor | None = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, in] to […, out]. Whole numbers to 127 are exact in every float type, so only the weights were rounded."""
        outputs = nn.functional.linear(inputs, self.weight.to(inputs.dtype)) * self.scale
        return outputs if self.bias is None else outputs + self.bias


def quantise(model: Any) -> None:
    """Replace the linear layers of a model of transformers, but its output layer."""
    output = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child is not output:
                setattr(parent, name, Int8Linear(child))


def quality_text() -> str:
    """Plain English of some paragraphs, which no model was trained on."""
    return _TEXT.read_text("utf-8")


def quantise_checked(model: Any, tokenizer: Any, context: int) -> tuple[float, float]:
    """Quantise, and compare what the model makes of a fixed text before and after.

    Returns:
        Perplexity without and with int8 weights.

    Raises:
        ModelLoadError: it rises by more than ``MOST_WORSE`` allows; the model is spoiled then.
    """
    ids: list[int] = tokenizer(quality_text(), add_special_tokens=False)["input_ids"]
    ids = ids[: min(context, _TOKENS)]
    before = perplexity(model, ids)
    quantise(model)
    after = perplexity(model, ids)
    # Written so that what is not a number does not pass.
    if not after <= MOST_WORSE * before:
        raise ModelLoadError(
            f"Int8 weights raise this model's perplexity from {before:.2f} to {after:.2f}, more than "
            f"{MOST_WORSE - 1:.0%}: set TALLYSTREAM_ENGINE__WEIGHTS=full",
            field="engine.weights",
        )
    return before, after


def perplexity(model: Any, ids: list[int]) -> float:
    """Of tokens, each given those before it."""
    tokens = torch.tensor([ids], device=model.device)
    with torch.inference_mode():
        logits: Tensor = model(input_ids=tokens, use_cache=False).logits
        return nn.functional.cross_entropy(logits[0, :-1].float(), tokens[0, 1:]).exp().item()
