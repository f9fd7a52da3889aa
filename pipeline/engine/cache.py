"""The key-value cache of the slot engine: one left-aligned row a sample, in memory that grows as needed.

Keys and values of a layer are [rows, heads, width, head size]. A row's position p holds its token p, so a
model sees of row r the positions up to its length and the mask hides the rest. Rows are kept together at
the front: when one leaves, the last moves into its place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pipeline.engine.prefix import Prefix

WIDTH_STEP = 64


def round_up(length: int) -> int:
    """The next multiple of ``WIDTH_STEP``: few widths mean few shapes, and the same sums in the same order."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


def round_down(length: int) -> int:
    """The multiple of ``WIDTH_STEP`` at or below."""
    return length // WIDTH_STEP * WIDTH_STEP


class SlotCache:
    """Rows of keys and values; ``reserve`` makes room, the views write and read.

    Args:
        max_rows: never more rows than this.
        context: never more positions a row than this, rounded up to a step.
        all_rows: reserve every row at once (for a constant row count).
        max_tokens: never more positions in all rows together; 0 is no bound but memory.
    """

    def __init__(self, max_rows: int, context: int, *, all_rows: bool = False, max_tokens: int = 0) -> None:
        self._max_rows = max_rows
        self._max_width = round_up(context)
        self._max_tokens = max_tokens
        self._least_rows = max_rows if all_rows else 0
        self._rows = self._least_rows
        self._width = 0
        self._layers: list[tuple[Tensor, Tensor]] = []

    def fits(self, rows: int, length: int) -> bool:
        """Whether ``rows`` rows of ``length`` positions are within the bound."""
        return not self._max_tokens or max(rows, self._least_rows) * round_up(length) <= self._max_tokens

    def reserve(self, rows: int, length: int) -> None:
        """Make room for ``rows`` rows of ``length`` positions; what is there of them is kept.

        Raises:
            RuntimeError: out of memory; the same call works later, or with less.
        """
        if rows <= self._rows and length <= self._width:
            return
        rows, width = self._shape(rows, length)
        # Layer by layer, so that only one layer is ever there twice. After a failure shapes differ, and
        # only what all layers have counts.
        self._rows, self._width = min(rows, self._rows), min(width, self._width)
        for index, (keys, values) in enumerate(self._layers):
            self._layers[index] = (_resized(keys, rows, width), _resized(values, rows, width))
        self._rows, self._width = rows, width

    def _shape(self, rows: int, length: int) -> tuple[int, int]:
        """Room to grow into if the bound allows it, else just what is needed."""
        rows = max(rows, self._least_rows)
        roomy_rows, roomy_width = self._rows, self._width
        if rows > self._rows:
            roomy_rows = min(self._max_rows, 1 << (rows - 1).bit_length())
        if length > self._width:
            roomy_width = min(self._max_width, max(round_up(length), 2 * self._width))
        if self.fits(roomy_rows, roomy_width):
            return roomy_rows, roomy_width
        return rows, round_up(length)

    def release(self) -> None:
        """Give all memory back; no row is kept."""
        self._layers.clear()
        self._rows, self._width = self._least_rows, 0

    def put(self, row: int, prefix: Prefix) -> None:
        """Copy all positions of a prefix to the beginning of a row."""
        length = len(prefix.ids)
        for index, (keys, values) in enumerate(prefix.layers):
            own_keys, own_values = self.layer(index, keys)
            own_keys[row, :, :length] = keys[0]
            own_values[row, :, :length] = values[0]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one row to another."""
        for tensor in self._tensors():
            tensor[target, :, :length] = tensor[source, :, :length]

    def clear(self, row: int, begin: int = 0) -> None:
        """Zero a row from a position on: a hidden position has no weight, but nought times NaN is NaN."""
        for tensor in self._tensors():
            tensor[row, :, begin:].zero_()

    def layer(self, index: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, made at the first use with the heads and type of ``like``."""
        while index >= len(self._layers):
            shape = (self._rows, like.shape[1], self._width, like.shape[3])
            # Zeros come lazily from the system: a row takes memory when it is first written.
            self._layers.append((like.new_zeros(shape), like.new_zeros(shape)))
        return self._layers[index]

    @property
    def width(self) -> int:
        """Positions of each row that there is room for."""
        return self._width

    @property
    def bytes(self) -> int:
        """Memory of all layers."""
        return sum(tensor.nbytes for tensor in self._tensors())

    def _tensors(self) -> list[Tensor]:
        return [tensor for pair in self._layers for tensor in pair]


def _resized(old: Tensor, rows: int, width: int) -> Tensor:
    old_rows, heads, old_width, size = old.shape
    if (old_rows, old_width) == (rows, width):
        return old
    new = old.new_zeros((rows, heads, width, size))
    kept_rows, kept_width = min(rows, old_rows), min(width, old_width)
    new[:kept_rows, :, :kept_width] = old[:kept_rows, :, :kept_width]
    return new


class DecodeView:
    """What a model is given as its cache for one step of rows ``first`` and on.

    Args:
        positions: [rows, tokens] where each row's new tokens go.
        width: positions to attend over.
    """

    def __init__(self, cache: SlotCache, first: int, positions: Tensor, width: int) -> None:
        self._cache = cache
        self._slice = slice(first, first + len(positions))
        self._rows = torch.arange(first, first + len(positions), device=positions.device)[:, None]
        self._positions = positions
        self._width = width

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Store [rows, heads, tokens, size]; return [rows, heads, width, size] of each."""
        stored_keys, stored_values = self._cache.layer(layer, keys)
        stored_keys[self._rows, :, self._positions] = keys.transpose(1, 2)
        stored_values[self._rows, :, self._positions] = values.transpose(1, 2)
        return stored_keys[self._slice, :, : self._width], stored_values[self._slice, :, : self._width]
