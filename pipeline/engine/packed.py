"""Linear layers whose weights lie as the CPU's kernels read them, so that a step does not order them anew.

A step of a few rows reads every weight for little arithmetic. What is packed once takes two thirds of the time there
(SmolLM2, 4 to 16 rows, float32), and a row's numbers depend on how many rows there are in fewer cases.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import structlog
import torch
from torch import Tensor, nn

_log = structlog.get_logger(__name__)

_TYPES = (torch.float32, torch.bfloat16)
_NEAR = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""How far a packed layer's numbers may be from a plain one's, of the largest."""


class PackedLinear(nn.Module):
    """A linear layer that keeps nothing but packed weights, and its bias.

    Args:
        rows: that a step usually has; any number works.
    """

    def __init__(self, linear: nn.Linear, rows: int) -> None:
        super().__init__()
        self._weight = _operators().mkldnn._reorder_linear_weight(linear.weight.detach(), rows)
        self._bias = linear.bias

    @property
    def weight(self) -> Tensor:
        """[out, in], made anew at each call: for models that look at a layer's weights themselves."""
        return self._weight.to_dense()

    def forward(self, inputs: Tensor) -> Tensor:
        """[…, in] to […, out]."""
        outputs: Tensor = _operators().mkldnn._linear_pointwise(
            inputs, self._weight, self._bias, "none", [], ""
        )
        return outputs


def pack(model: Any, rows: int) -> int:
    """Pack the plain linear layers of a model of transformers on the CPU, for good.

    Where this PyTorch can not, or gives other numbers, the model stays as it is.

    Returns:
        How many layers that were.
    """
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear
    ]
    if not places or not _works(getattr(*places[0]), rows):
        return 0
    packed = 0
    for parent, name in places:
        if _packable(linear := getattr(parent, name)):
            setattr(
                parent, name, PackedLinear(linear, rows)
            )  # one by one: only one layer is ever there twice
            packed += 1
    return packed


def _packable(linear: nn.Linear) -> bool:
    return linear.weight.device.type == "cpu" and linear.weight.dtype in _TYPES


def _works(linear: nn.Linear, rows: int) -> bool:
    """Whether it can be done here: the operators are PyTorch's own compiler's, and not promised to others."""
    if not torch.backends.mkldnn.is_available() or not _packable(linear):
        return False
    inputs = torch.linspace(-1, 1, 3 * linear.in_features).reshape(3, -1).to(linear.weight.dtype)
    try:
        with torch.inference_mode():
            wanted, given = linear(inputs), PackedLinear(linear, rows)(inputs)
    except Exception as error:
        _log.info("layers are not packed", error=f"{type(error).__name__}: {error}"[:200])
        return False
    near = _NEAR[linear.weight.dtype] * float(wanted.abs().max())
    if not bool((given - wanted).abs().max() <= near):  # so that what is not a number does not pass
        _log.warning("layers are not packed", error="they would give other numbers")
        return False
    return True


def _operators() -> Any:
    return torch.ops
