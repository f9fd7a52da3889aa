"""The model's forward over slots: read a prompt into a row, take one step of some rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.engine.cache import DecodeView, PrefillView, SlotCache, round_up
from pipeline.engine.model import LoadedModel
from pipeline.errors import ModelLoadError


class Runner:
    """Runs a model of transformers on rows of a slot cache.

    Args:
        loaded: the model.
        rows: how many rows there can be.
        constant_rows: step all rows each time, used or not. With a cache that is aligned left, widths in
            steps and prompts read one by one, a row's numbers then do not depend on its neighbours.
    """

    def __init__(self, loaded: LoadedModel, rows: int, *, constant_rows: bool) -> None:
        self._model = loaded.model
        self._device = torch.device(loaded.model.device)
        self._rows = rows
        self._constant_rows = constant_rows
        self.cache = SlotCache(rows, loaded.context, all_rows=constant_rows)

    def prefill(self, row: int, ids: Sequence[int]) -> Tensor:
        """Read ``ids`` into a row; returns the logits [vocabulary] after the last."""
        self.cache.reserve(row + 1, len(ids))
        length = len(ids)
        mask = torch.ones((1, 1, length, length), dtype=torch.bool, device=self._device).tril()
        positions = torch.arange(length, device=self._device)[None]
        return self._forward(
            torch.tensor([ids], device=self._device), mask, positions, PrefillView(self.cache, row)
        )[0]

    def decode(self, first: int, tokens: Sequence[int], positions: Sequence[int], *, fill: bool) -> Tensor:
        """Feed one token to each of the rows from ``first`` on; returns logits [rows, vocabulary].

        ``fill`` says that these are all the rows in use, so the others may be stepped for nothing.
        Calling it again with the same arguments writes the same, so a failed step can be repeated.
        """
        count = len(tokens)
        width = round_up(max(positions) + 1)
        if self._constant_rows and fill:
            idle = self._rows - count
            tokens, positions = [*tokens, *[0] * idle], [*positions, *[0] * idle]
        at = torch.tensor(positions, device=self._device)
        mask = (torch.arange(width, device=self._device)[None] <= at[:, None])[:, None, None]
        ids = torch.tensor(tokens, device=self._device)[:, None]
        return self._forward(ids, mask, at[:, None], DecodeView(self.cache, first, at, width))[:count]

    def check(self) -> None:
        """Warm up, and compare the cached path with a plain forward.

        Raises:
            ModelLoadError: the model does not keep its past as plain keys and values.
        """
        ids = [1, 2, 3, 4]
        try:
            expected = self._model(input_ids=torch.tensor([ids], device=self._device), use_cache=False)
            self.prefill(0, ids[:-1])
            self.cache.reserve(1, len(ids))
            actual = self.decode(0, ids[-1:], [len(ids) - 1], fill=True)[0].float()
        except Exception as error:
            message = f"The model can't be run by the slot engine ({error}): choose a plain decoder model"
            raise ModelLoadError(message, field="model") from error
        plain = expected.logits[0, -1].float()
        tolerance = 0.2 if expected.logits.dtype != torch.float32 else 0.01
        if not bool((actual - plain).abs().max() <= tolerance * plain.abs().max()):
            message = "The model gives other results from the slot cache: choose a plain decoder model"
            raise ModelLoadError(message, field="model")
        self.cache.release()

    def _forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, view: PrefillView | DecodeView
    ) -> Tensor:
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=view,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits
        return logits[:, -1]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; the CPU's allocator raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "alloc" in str(error) and "memory" in str(error)
    )
