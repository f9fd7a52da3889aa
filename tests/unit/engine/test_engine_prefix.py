"""What is kept of prompts: by bytes, the least recently used out first, found by their beginnings."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.prefix import Prefix, PrefixStore, common_length
from pipeline.engine.prompts import PromptEncoder
from pipeline.events import Conversation, InferenceRequest, Message, RunningTurn
from pipeline.scheduling.history import remembered, with_history
from tests.tiny_model import tiny_tokenizer

A_TOKEN = 2 * 2 * 3 * 4  # keys and values, two heads of three floats
short_ids = st.lists(st.integers(0, 2), max_size=12).map(tuple)


def complete(*ids: int) -> Prefix:
    prefix = Prefix(ids)
    keys = torch.tensor(ids, dtype=torch.float32)[None, None, :, None].expand(1, 2, -1, 3)
    prefix.update(keys, -keys, 0)
    prefix.read = len(ids)
    return prefix


def together(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(short_ids, short_ids)
def test_the_common_length_is_that_of_the_common_prefix(one, other):
    assert common_length(one, other) == together(one, other)


@given(st.lists(short_ids.filter(bool), max_size=8), short_ids)
def test_the_longest_shared_beginning_is_found(kept, wanted):
    store = PrefixStore(10**6)
    for ids in kept:
        store.keep(complete(*ids))
    source, shared = store.longest(wanted)
    assert shared == max((together(ids, wanted) for ids in kept), default=0)
    assert source is None or source.ids[:shared] == wanted[:shared]


def test_what_was_used_least_recently_goes_first():
    store = PrefixStore(6 * A_TOKEN)
    for first in (1, 2, 3):
        store.keep(complete(first, first))
    assert store.exact((1, 1)) is not None
    store.keep(complete(4, 4))
    assert [store.exact((n, n)) is not None for n in (1, 2, 3, 4)] == [True, False, True, True]
    assert store.longest((1, 2))[1] == 1
    store.keep(complete(5, 5, 5, 5))
    assert store.exact((1, 1)) is not None
    assert len(store) == 2


def test_the_last_prompt_is_kept_above_any_bound_but_shared_only_within_one():
    for bound, shared in ((0, 0), (1, 2)):
        store = PrefixStore(bound)
        store.keep(complete(7, 8))
        store.keep(complete(1, 2, 3))
        assert store.exact((7, 8)) is None
        assert store.exact((1, 2, 3)) is not None
        assert store.longest((1, 2, 9))[1] == shared


def test_keeping_the_same_prompt_again_counts_it_once():
    store = PrefixStore(4 * A_TOKEN)
    for _ in range(5):
        store.keep(complete(1, 2))
    store.keep(complete(3, 4))
    assert len(store) == 2


def test_short_of_memory_all_but_one_can_be_dropped():
    store = PrefixStore(10**6)
    own, other = complete(1, 2), complete(3, 4)
    store.keep(own)
    assert not store.clear(but=own)
    store.keep(other)
    assert store.clear(but=own)
    assert store.exact((3, 4)) is None and store.exact((1, 2)) is own


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_borrowed_beginning_is_a_copy_that_is_read_on(length):
    source, prefix = complete(1, 2, 3), Prefix((1, 2, 3, 9, 9))
    prefix.borrow(source, length)
    keys = torch.full((1, 2, 5 - length, 3), 9.0)
    seen, values = prefix.update(keys, -keys, 0)
    assert seen[0, 0, :, 0].tolist() == [*[1.0, 2.0, 3.0][:length], *[9.0] * (5 - length)]
    assert torch.equal(values, -seen)
    assert source.layers[0][0][0, 0, :, 0].tolist() == [1.0, 2.0, 3.0]


def test_a_follow_up_borrows_all_that_was_read_for_the_turn_before_it():
    encode = PromptEncoder(tiny_tokenizer()).encode
    asks = InferenceRequest("q", "Name a prime.")
    first = encode((Message("user", asks.prompt),))
    store = PrefixStore(10**6)
    store.keep(complete(*first))
    turn = RunningTurn("q", 0, 0, 1, (Message("user", asks.prompt),))
    kept = remembered(Conversation("u", "s", 0, 0), turn, "7", 1_000)
    follow_up = with_history(replace(asks, prompt="Another one?"), kept, 1)
    assert store.longest(encode(follow_up.messages))[1] == len(first)
