"""The slot cache: grows as needed, keeps what is there, and is as it was after a failed allocation."""

from __future__ import annotations

import torch

from pipeline.engine.cache import DecodeView, SlotCache, round_up
from pipeline.engine.prefix import Prefix


def filled(cache: SlotCache, row: int, length: int) -> torch.Tensor:
    keys = torch.randn(1, 2, length, 4)
    cache.reserve(row + 1, length)
    cache.put(row, read(keys))
    return keys[0]


def read(keys: torch.Tensor) -> Prefix:
    prefix = Prefix(range(keys.shape[2]))
    prefix.update(keys, keys, 0)
    return prefix


def stored(cache: SlotCache, row: int, length: int) -> torch.Tensor:
    return cache.layer(0, torch.empty(1, 2, 1, 4))[0][row, :, :length]


def test_widths_are_steps_of_64():
    assert [round_up(length) for length in (1, 64, 65, 128)] == [64, 64, 128, 128]


def test_memory_grows_with_rows_and_lengths_and_keeps_what_is_there():
    cache = SlotCache(8, 4096)
    first = filled(cache, 0, 10)
    assert cache.layer(0, first[None])[0].shape == (1, 2, 64, 4)
    second = filled(cache, 1, 100)
    third = filled(cache, 2, 20)
    assert cache.layer(0, first[None])[0].shape == (4, 2, 128, 4)
    for row, keys in enumerate((first, second, third)):
        assert torch.equal(stored(cache, row, keys.shape[1]), keys)


def test_memory_never_exceeds_rows_and_context():
    cache = SlotCache(3, 100)
    keys = filled(cache, 2, 90)
    cache.reserve(3, 100)
    assert cache.layer(0, keys[None])[0].shape == (3, 2, 128, 4)


def test_rows_are_copied_cleared_and_released():
    cache = SlotCache(4, 256)
    keys = filled(cache, 0, 7)
    cache.reserve(2, 7)
    cache.copy(0, 1, 7)
    assert torch.equal(stored(cache, 1, 7), keys)
    cache.clear(0)
    assert not stored(cache, 0, 7).any()
    cache.release()
    assert not stored(filled_again(cache), 0, 64)[:, 7:].any()


def filled_again(cache: SlotCache) -> SlotCache:
    filled(cache, 0, 7)
    return cache


def test_a_step_writes_each_row_at_its_own_position():
    cache = SlotCache(2, 64)
    filled(cache, 0, 3)
    filled(cache, 1, 5)
    new = torch.randn(2, 2, 1, 4)
    view = DecodeView(cache, 0, torch.tensor([3, 5]), 64)
    keys, _ = view.update(new, new, 0)
    assert keys.shape == (2, 2, 64, 4)
    assert torch.equal(keys[0, :, 3], new[0, :, 0])
    assert torch.equal(keys[1, :, 5], new[1, :, 0])
