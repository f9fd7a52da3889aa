"""The model's forward: read tokens of a prompt, take one step of some rows of the slot cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.engine.cache import DecodeView, SlotCache, round_up
from pipeline.engine.model import LoadedModel
from pipeline.engine.prefix import Prefix


class Runner:
    """Runs a model of transformers on rows of a slot cache.

    Args:
        loaded: the model.
        rows: how many rows there can be.
        constant_rows: step all rows each time, used or not. With a cache that is aligned left, widths in
            steps and prompts read one by one, a row's numbers then do not depend on its neighbours.
        cache: where the rows' keys and values are.
    """

    def __init__(self, loaded: LoadedModel, rows: int, *, constant_rows: bool, cache: SlotCache) -> None:
        self._model = loaded.model
        self._device = torch.device(loaded.model.device)
        self._rows = rows
        self._constant_rows = constant_rows
        self.cache = cache

    def read(self, prefix: Prefix, end: int) -> Tensor:
        """Read a prefix on to its token ``end``; returns the logits [vocabulary] after that.

        Raises:
            RuntimeError: out of memory.
        """
        begin = prefix.read
        mask = torch.ones((1, 1, end - begin, end), dtype=torch.bool, device=self._device).tril(begin)
        positions = torch.arange(begin, end, device=self._device)[None]
        ids = torch.tensor([prefix.ids[begin:end]], device=self._device)
        logits = self._forward(ids, mask, positions, prefix)[0, -1]
        prefix.read = end
        return logits

    def decode(
        self, first: int, tokens: Sequence[Sequence[int]], positions: Sequence[int], *, fill: bool
    ) -> Tensor:
        """Feed equally many tokens to each of the rows from ``first`` on, the first of them at its position.

        ``fill`` says that these are all the rows in use, so the others may be stepped for nothing.
        Calling it again with the same arguments writes the same, so a failed step can be repeated.

        Returns:
            Logits [rows, tokens, vocabulary], those after each token.
        """
        rows, count = len(tokens), len(tokens[0])
        width = round_up(max(positions) + count)
        if self._constant_rows and fill:
            idle = self._rows - rows
            tokens, positions = [*tokens, *[[0] * count] * idle], [*positions, *[0] * idle]
        begin = torch.tensor(positions, device=self._device)[:, None]
        at = begin + torch.arange(count, device=self._device)
        mask = (torch.arange(width, device=self._device) <= at[:, :, None])[:, None]
        ids = torch.tensor(tokens, device=self._device)
        view = DecodeView(self.cache, first, at, width)
        return self._forward(ids, mask, at, view, keep=count)[:rows]

    def _forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, view: Prefix | DecodeView, *, keep: int = 1
    ) -> Tensor:
        """Logits [rows, keep, vocabulary] after the last tokens."""
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=view,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: Tensor = output.logits
        return logits


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; the CPU's allocator raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "alloc" in str(error) and "memory" in str(error)
    )
