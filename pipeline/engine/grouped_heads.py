"""Attention on the CPU that reads each head's keys and values where they lie.

Where queries have more heads than keys, transformers copies the cache at each step, once for each query head, before
PyTorch's kernel reads it; and that kernel is made for many tokens, not for a step's few. With SmolLM2, 16 rows and 448
positions a layer took 18 ms so, and takes 0.8 here; in bfloat16 the kernel alone takes five times as long as this.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import importlib
from typing import Any, Final

import torch
from torch import Tensor

_NAME: Final = "tallystream_grouped_heads"
_PLAIN: Final = "sdpa"
_FEW: Final = 32
"""Tokens a row up to which two products are faster than PyTorch's kernel."""
_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of keys that are made float32 at once: what a processor keeps near."""

_HIDDEN: Final = torch.finfo(torch.float32).min
"""Finite, so that a token that sees nothing (padding) has numbers too."""


def group_heads(model: Any) -> bool:
    """Have a model of transformers attend so, for good; returns whether it does.

    A model that is not on the CPU, has other attention than ``sdpa``, or code of its own for it, stays as it is.
    """
    if model.device.type != "cpu" or _attention_of(model) != _PLAIN:
        return False
    utils: Any = importlib.import_module("transformers.modeling_utils")
    masks: Any = importlib.import_module("transformers.masking_utils")
    utils.AttentionInterface.register(_NAME, _attend)
    masks.AttentionMaskInterface.register(_NAME, masks.ALL_MASK_ATTENTION_FUNCTIONS[_PLAIN])
    model.set_attn_implementation(_NAME)
    return _attention_of(model) == _NAME


def _attention_of(model: Any) -> str:
    return model.config._attn_implementation


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """What transformers' ``sdpa`` gives: [rows, heads, tokens, size] and a mask to [rows, tokens, heads, size]."""
    if (
        attention_mask is None
        or attention_mask.dtype is not torch.bool
        or rest.get("position_bias") is not None
    ):
        plain: Any = importlib.import_module("transformers.integrations.sdpa_attention")
        return plain.sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **rest
        )
    if query.shape[2] <= _FEW:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        outputs = _few_tokens(query, key, value, attention_mask, scale)
    else:
        outputs = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
        )
    return outputs.transpose(1, 2).contiguous(), None


def _few_tokens(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float) -> Tensor:
    """In float32, whatever the cache is in; a few rows at a time, so that it is not there twice."""
    rows, heads, width, size = key.shape
    at_once = max(1, _AT_ONCE // (heads * width * size * 4)) if key.dtype != torch.float32 else rows
    outputs = torch.empty_like(query)
    for first in range(0, rows, at_once):
        some = slice(first, first + at_once)
        hidden = ~(mask if len(mask) == 1 else mask[some])
        outputs[some] = _products(query[some], key[some], value[some], hidden, scale)
    return outputs


def _products(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, scale: float) -> Tensor:
    """Query heads that share keys are rows of one product: [rows * key heads, heads a key * tokens, size]."""
    rows, heads, tokens, size = query.shape
    shared, width = key.shape[1], key.shape[2]
    questions = query.float().reshape(rows * shared, -1, size)
    scores = torch.bmm(questions, key.flatten(0, 1).float().transpose(1, 2))
    scores = scores.view(rows, heads, tokens, width).mul_(scale).masked_fill_(hidden, _HIDDEN)
    weights = torch.softmax(scores, -1).view(rows * shared, -1, width)
    return torch.bmm(weights, value.flatten(0, 1).float()).view(query.shape)
