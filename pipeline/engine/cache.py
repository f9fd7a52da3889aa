"""The key-value cache of the slot engine: one left-aligned row a sample, in memory that grows as needed.

Keys and values of a layer are [rows, heads, width, head size]. A row's position p holds its token p, so a
model sees of row r the positions up to its length and the mask hides the rest. Rows are kept together at
the front: when one leaves, the last moves into its place.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH_STEP = 64


def round_up(length: int) -> int:
    """The next multiple of ``WIDTH_STEP``: few widths mean few shapes, and the same sums in the same order."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


class SlotCache:
    """Rows of keys and values; ``reserve`` makes room, the views write and read.

    Args:
        max_rows: never more rows than this.
        context: never more positions than this, rounded up to a step.
        all_rows: reserve every row at once (for a constant row count).
    """

    def __init__(self, max_rows: int, context: int, *, all_rows: bool = False) -> None:
        self._max_rows = max_rows
        self._max_width = round_up(context)
        self._rows = max_rows if all_rows else 0
        self._width = 0
        self._layers: list[tuple[Tensor, Tensor]] = []

    def reserve(self, rows: int, length: int) -> None:
        """Make room for ``rows`` rows of ``length`` positions; what is there is kept.

        Raises:
            RuntimeError: out of memory; the same call works later, or with less.
        """
        if rows <= self._rows and length <= self._width:
            return
        if rows > self._rows:
            rows = min(self._max_rows, 1 << (rows - 1).bit_length())
        width = length
        if length > self._width:
            width = min(self._max_width, max(round_up(length), 2 * self._width))
        rows, width = max(rows, self._rows), max(width, self._width)
        # Layer by layer, so that only one layer is ever there twice. After a failure some layers are larger.
        for index, (keys, values) in enumerate(self._layers):
            self._layers[index] = (_grown(keys, rows, width), _grown(values, rows, width))
        self._rows, self._width = rows, width

    def release(self) -> None:
        """Give all memory back; no row is kept."""
        self._layers.clear()
        self._width = 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one row to another."""
        for tensor in self._tensors():
            tensor[target, :, :length] = tensor[source, :, :length]

    def clear(self, row: int) -> None:
        """Zero a row: a hidden position has no weight, but nought times NaN is NaN."""
        for tensor in self._tensors():
            tensor[row].zero_()

    def layer(self, index: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, made at the first use with the heads and type of ``like``."""
        while index >= len(self._layers):
            shape = (self._rows, like.shape[1], self._width, like.shape[3])
            # Zeros come lazily from the system: a row takes memory when it is first written.
            self._layers.append((like.new_zeros(shape), like.new_zeros(shape)))
        return self._layers[index]

    def _tensors(self) -> list[Tensor]:
        return [tensor for pair in self._layers for tensor in pair]


def _grown(old: Tensor, rows: int, width: int) -> Tensor:
    old_rows, heads, old_width, size = old.shape
    if old_rows >= rows and old_width >= width:
        return old
    new = old.new_zeros((max(rows, old_rows), heads, max(width, old_width), size))
    new[:old_rows, :, :old_width] = old
    return new


class PrefillView:
    """What a model is given as its cache while it reads one prompt into one row."""

    def __init__(self, cache: SlotCache, row: int) -> None:
        self._cache = cache
        self._row = row

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Store [1, heads, length, size] and attend over just these."""
        stored_keys, stored_values = self._cache.layer(layer, keys)
        length = keys.shape[2]
        stored_keys[self._row, :, :length] = keys[0]
        stored_values[self._row, :, :length] = values[0]
        return keys, values


class DecodeView:
    """What a model is given as its cache for one step of rows ``first`` and on, a token each.

    Args:
        positions: [rows] where each row's new token goes.
        width: positions to attend over.
    """

    def __init__(self, cache: SlotCache, first: int, positions: Tensor, width: int) -> None:
        self._cache = cache
        self._slice = slice(first, first + len(positions))
        self._rows = torch.arange(first, first + len(positions), device=positions.device)
        self._positions = positions
        self._width = width

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Store [rows, heads, 1, size]; return [rows, heads, width, size] of each."""
        stored_keys, stored_values = self._cache.layer(layer, keys)
        stored_keys[self._rows, :, self._positions] = keys[:, :, 0]
        stored_values[self._rows, :, self._positions] = values[:, :, 0]
        return stored_keys[self._slice, :, : self._width], stored_values[self._slice, :, : self._width]
