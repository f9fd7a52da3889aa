"""Prompts that have been read: their keys and values, kept for siblings and for prompts that begin alike.

Samples of one prompt copy one prefix into their slots, whenever they start. A new prompt borrows the longest
beginning that a kept one shares with it and reads only the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor


class Prefix:
    """The keys and values of some tokens, [1, heads, tokens, head size] a layer.

    Attributes:
        ids: the tokens.
        read: how many of them the model has read.
        logits: [vocabulary] after the last token; ``None`` until all are read.
        layers: keys and values of each layer, made at its first ``update``.
    """

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)
        self.read = 0
        self.logits: Tensor | None = None
        self.layers: list[tuple[Tensor, Tensor]] = []

    @property
    def bytes(self) -> int:
        tensors = [tensor for pair in self.layers for tensor in pair]
        if self.logits is not None:
            tensors.append(self.logits)
        return sum(tensor.nbytes for tensor in tensors)

    def borrow(self, other: Prefix, length: int) -> None:
        """Copy the first ``length`` positions of another prefix that begins with the same tokens."""
        for keys, values in other.layers:
            own_keys, own_values = self._room(keys), self._room(values)
            own_keys[:, :, :length] = keys[:, :, :length]
            own_values[:, :, :length] = values[:, :, :length]
            self.layers.append((own_keys, own_values))
        self.read = length

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """What a model calls on its cache: store [1, heads, new, size] behind what is read, return all so far."""
        if layer == len(self.layers):
            self.layers.append((self._room(keys), self._room(values)))
        end = self.read + keys.shape[2]
        own_keys, own_values = self.layers[layer]
        own_keys[:, :, self.read : end] = keys
        own_values[:, :, self.read : end] = values
        return own_keys[:, :, :end], own_values[:, :, :end]

    def _room(self, like: Tensor) -> Tensor:
        return like.new_empty((1, like.shape[1], len(self.ids), like.shape[3]))


class PrefixStore:
    """Prefixes that are read to the end, the least recently used dropped first.

    Args:
        max_bytes: bound of what is kept. The prefix used last is kept even above it, since its siblings
            are likely to come next.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._bytes = 0

    def keep(self, prefix: Prefix) -> None:
        """Keep a prefix and drop what no longer fits beside it."""
        self._drop(prefix.ids)
        self._kept[prefix.ids] = prefix
        self._bytes += prefix.bytes
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def exact(self, ids: tuple[int, ...]) -> Prefix | None:
        """The prefix of just these tokens."""
        found = self._kept.get(ids)
        if found is not None:
            self._kept.move_to_end(ids)
        return found

    def longest(self, ids: tuple[int, ...]) -> tuple[Prefix | None, int]:
        """The kept prefix that shares the longest beginning with ``ids``, and how many tokens that is.

        Without a bound of bytes to fill, nothing is shared between prompts.
        """
        best, most = None, 0
        for prefix in self._kept.values() if self._max_bytes else ():
            # Comparing one token first spares most of the work for prompts that begin otherwise.
            if prefix.ids[most : most + 1] == ids[most : most + 1]:
                shared = common_length(prefix.ids, ids)
                if shared > most:
                    best, most = prefix, shared
        if best is not None:
            self._kept.move_to_end(best.ids)
        return best, most

    def clear(self, *, but: Prefix | None = None) -> bool:
        """Drop all but one, when memory is short; returns whether anything was dropped."""
        dropped = [ids for ids, prefix in self._kept.items() if prefix is not but]
        for ids in dropped:
            self._drop(ids)
        return bool(dropped)

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, ids: tuple[int, ...]) -> None:
        dropped = self._kept.pop(ids, None)
        if dropped is not None:
            self._bytes -= dropped.bytes


def common_length(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
