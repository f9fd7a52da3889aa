"""Shared heads are read where they lie: the same numbers, and nothing is copied."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pipeline.engine import grouped_heads
from pipeline.engine.cache import SlotCache
from pipeline.engine.grouped_heads import group_heads
from pipeline.engine.prefix import Prefix
from pipeline.engine.runner import Runner
from pipeline.engine.slots import load_for_slots
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model, tiny_llama

PLACES = (0, 8, 5)


def logits_of(loaded, model):
    """Three prompts read in two pieces each, then a step of rows of different lengths."""
    cache = SlotCache(4, 256)
    runner = Runner(loaded, 4, constant_rows=False, cache=cache)
    runner._model = model
    read: list[torch.Tensor] = []
    with torch.inference_mode():
        cache.reserve(3, 80)
        for row, more in enumerate(PLACES):
            prefix = Prefix([1, *range(3, 60 + more)])
            runner.read(prefix, 31)
            read.append(runner.read(prefix, len(prefix.ids)))
            cache.put(row, prefix)
        step = runner.decode(0, [[7, 8], [9, 10], [11, 12]], [58 + more for more in PLACES], fill=True)
    return [*read, step]


@pytest.fixture
def grouped(tiny):
    model = copy.deepcopy(tiny.model)
    assert group_heads(model)
    return model


def test_prompts_and_steps_have_the_numbers_of_transformers_own_attention(tiny, grouped):
    for given, wanted in zip(logits_of(tiny, grouped), logits_of(tiny, tiny.model), strict=True):
        torch.testing.assert_close(given, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tokens", [1, 17, 40])
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize("at_once", [1, 2**40])
def test_any_shape_and_type_has_exact_attention_s_numbers(monkeypatch, dtype, tokens, heads, at_once):
    monkeypatch.setattr(grouped_heads, "_AT_ONCE", at_once)
    queries, keys = heads
    chance = torch.Generator().manual_seed(tokens)
    query = torch.randn(5, queries, tokens, 16, generator=chance).to(dtype)
    key, value = (torch.randn(5, keys, 96, 16, generator=chance).to(dtype)[:, :, :70] for _ in range(2))
    ends = torch.tensor([1, 20, 33, 69, 70])[:, None] - torch.arange(tokens).flip(0)
    mask = (torch.arange(70) < ends.clamp(min=1)[:, :, None])[:, None]
    repeated = [each.double().repeat_interleave(queries // keys, 1) for each in (key, value)]
    for scaling in (None, 0.4):
        exact = functional.scaled_dot_product_attention(
            query.double(), *repeated, attn_mask=mask, scale=scaling
        )
        given, _ = grouped_heads._attend(None, query, key, value, mask, scaling=scaling)
        assert given.dtype is dtype and given.is_contiguous()
        near = 4 * torch.finfo(dtype).eps * float(exact.abs().max())
        torch.testing.assert_close(given.double(), exact.transpose(1, 2), rtol=0, atol=max(near, 1e-6))


def test_a_row_has_the_same_bits_in_any_company():
    query, key, value = torch.randn(16, 6, 1, 16), torch.randn(16, 2, 70, 16), torch.randn(16, 2, 70, 16)
    mask = torch.rand(16, 1, 1, 70) < 0.8
    whole, _ = grouped_heads._attend(None, query, key, value, mask)
    for count in range(1, 16):
        some, _ = grouped_heads._attend(None, query[:count], key[:count], value[:count], mask[:count])
        assert torch.equal(some, whole[:count])


def test_a_bad_row_harms_no_other_and_a_token_that_sees_nothing_is_finite():
    query, key, value = torch.randn(3, 6, 1, 16), torch.randn(3, 2, 8, 16), torch.randn(3, 2, 8, 16)
    mask = torch.ones(3, 1, 1, 8, dtype=torch.bool)
    mask[2] = False
    good, _ = grouped_heads._attend(None, query, key, value, mask)
    key[0, 0, 3, 1] = torch.nan
    bad, _ = grouped_heads._attend(None, query, key, value, mask)
    assert bad[0].isnan().any() and torch.equal(bad[1:], good[1:]) and good.isfinite().all()


def test_the_kernel_is_given_the_cache_itself(tiny, grouped, monkeypatch):
    heads: list[tuple[int, int]] = []
    plain = functional.scaled_dot_product_attention

    def watched(query, key, value, **options):
        heads.append((key.shape[1], value.shape[1]))
        return plain(query, key, value, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    monkeypatch.setattr(grouped_heads, "_FEW", 0)
    logits_of(tiny, grouped)
    assert set(heads) == {(2, 2)}
    heads.clear()
    logits_of(tiny, tiny.model)
    assert set(heads) == {(4, 4)}


def test_generate_goes_on_as_before(tiny, grouped):
    ids = torch.tensor([[1, 40, 50, 60, 70]])
    options = {"do_sample": False, "max_new_tokens": 20, "pad_token_id": 0}
    assert grouped.generate(ids, **options).tolist() == tiny.model.generate(ids, **options).tolist()
    padded, mask = torch.tensor([[0, 0, 1, 40, 50]]), torch.tensor([[0, 0, 1, 1, 1]])
    drawn = [
        model.generate(padded, attention_mask=mask, **options).tolist() for model in (grouped, tiny.model)
    ]
    assert drawn[0] == drawn[1]


def test_a_bias_by_position_is_left_to_transformers(grouped):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    attend = ALL_ATTENTION_FUNCTIONS[grouped.config._attn_implementation]
    module = grouped.model.layers[0].self_attn
    query, key, value = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    mask = torch.ones(2, 1, 3, 6, dtype=torch.bool).tril(3)
    bias = torch.randn(2, 4, 3, 6)
    given, _ = attend(module, query, key, value, mask, scaling=0.5, position_bias=bias)
    wanted, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.5, position_bias=bias)
    other, _ = attend(module, query, key, value, mask, scaling=0.5)
    assert torch.equal(given, wanted) and not torch.allclose(given, other)


def test_other_attention_and_other_devices_stay_as_they_are(tiny):
    eager = tiny_llama()
    eager.set_attn_implementation("eager")
    elsewhere = copy.deepcopy(tiny.model).to("meta")
    own_code = copy.deepcopy(tiny.model)
    own_code._can_set_attn_implementation = lambda: False
    assert [group_heads(model) for model in (eager, elsewhere, own_code)] == [False] * 3
    assert eager.config._attn_implementation == "eager"
    assert elsewhere.config._attn_implementation == own_code.config._attn_implementation == "sdpa"


def test_the_slot_engine_has_its_model_so(tmp_path):
    folder = build_tiny_model(tmp_path / "tiny", context=64)
    assert not group_heads(load_for_slots(load_settings(model=str(folder))).model)
