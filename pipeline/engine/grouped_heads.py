"""Attention on the CPU that reads each head's keys and values where they lie.

Where queries have more heads than keys, transformers copies the cache at each step, once for each query head, before
PyTorch's kernel reads it; and that kernel is made for many tokens, not for a step's few. With SmolLM2, 16 rows and 448
positions a layer took 18 ms so, and takes 0.8 here; in bfloat16 the kernel alone takes five times as long as this.
A cap on the scores (Gemma 2), which transformers' ``sdpa`` leaves out, is applied.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import importlib
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

_NAME: Final = "tallystream_grouped_heads"
_BY_KERNEL: Final = "tallystream_grouped_heads_by_kernel"
_PLAIN: Final = "sdpa"
_FEW: Final = 32
"""Tokens a row up to which two products are faster than PyTorch's kernel."""
_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of keys that are made float32 at once: what a processor keeps near."""
_HIDDEN: Final = torch.finfo(torch.float32).min
"""Finite, so that a token that sees nothing (padding) has numbers too."""


def group_heads(model: Any, *, same_bits: bool = False) -> bool:
    """Have a model of transformers attend so, for good; returns whether it does.

    A model that is not on the CPU, has other attention than ``sdpa``, or code of its own for it, stays as it is.

    Args:
        same_bits: leave steps to PyTorch's kernel too. Bits of the products of four heads and more depend on
            how many positions there are, and so on the longest neighbour.
    """
    if model.device.type != "cpu" or _attention_of(model) != _PLAIN:
        return False
    utils: Any = importlib.import_module("transformers.modeling_utils")
    masks: Any = importlib.import_module("transformers.masking_utils")
    name, few = (_BY_KERNEL, 0) if same_bits else (_NAME, _FEW)
    utils.AttentionInterface.register(name, partial(_attend, few))
    masks.AttentionMaskInterface.register(name, masks.ALL_MASK_ATTENTION_FUNCTIONS[_PLAIN])
    model.set_attn_implementation(name)
    return _attention_of(model) == name


def _attention_of(model: Any) -> str:
    return model.config._attn_implementation


def _attend(
    few: int,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """What transformers' ``sdpa`` gives: [rows, heads, tokens, size] and a mask to [rows, tokens, heads, size].

    Args:
        few: tokens a row up to which it is two products.
    """
    if attention_mask is None and softcap is not None:
        tokens, width = query.shape[2], key.shape[2]
        attention_mask = torch.ones((1, 1, tokens, width), dtype=torch.bool).tril(width - tokens)
    if (
        attention_mask is None
        or attention_mask.dtype is not torch.bool
        or rest.get("position_bias") is not None
    ):
        plain: Any = importlib.import_module("transformers.integrations.sdpa_attention")
        return plain.sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **rest
        )
    if softcap is not None or query.shape[2] <= few:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        outputs = _by_products(query, key, value, attention_mask, scale, softcap)
    else:
        outputs = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
        )
    return outputs.transpose(1, 2).contiguous(), None


def _by_products(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float, cap: float | None
) -> Tensor:
    """In float32, whatever the cache is in; a few rows at a time, so that it is not there twice."""
    rows, heads, width, size = key.shape
    at_once = max(1, _AT_ONCE // (heads * width * size * 4)) if key.dtype != torch.float32 else rows
    outputs = query.new_empty((*query.shape[:3], value.shape[-1]))
    for first in range(0, rows, at_once):
        some = slice(first, first + at_once)
        hidden = ~(mask if len(mask) == 1 else mask[some])
        outputs[some] = _products(query[some], key[some], value[some], hidden, scale, cap)
    return outputs


def _products(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, scale: float, cap: float | None
) -> Tensor:
    """Query heads that share keys are rows of one product: [rows * key heads, heads a key * tokens, size]."""
    rows, heads, tokens, size = query.shape
    shared, width = key.shape[1], key.shape[2]
    questions = query.float().reshape(rows * shared, -1, size)
    scores = torch.bmm(questions, key.flatten(0, 1).float().transpose(1, 2)).mul_(scale)
    if cap is not None:
        scores.div_(cap).tanh_().mul_(cap)
    scores = scores.view(rows, heads, tokens, width).masked_fill_(hidden, _HIDDEN)
    weights = torch.softmax(scores, -1).view(rows * shared, -1, width)
    return torch.bmm(weights, value.flatten(0, 1).float()).view(rows, heads, tokens, -1)
