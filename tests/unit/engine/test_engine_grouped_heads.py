"""Shared heads are read where they lie: the same numbers, and nothing is copied."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from engine_support import run_all, running, task
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

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


def attention(few: int, *args, **options) -> torch.Tensor:
    outputs, nothing = grouped_heads._attend(few, None, *args, **options)
    assert nothing is None
    return outputs


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
    by_row = (torch.arange(70) < ends.clamp(min=1)[:, :, None])[:, None]
    repeated = [each.double().repeat_interleave(queries // keys, 1) for each in (key, value)]
    for scaling, mask in ((None, by_row), (0.4, by_row), (0.4, by_row[2:3])):
        exact = functional.scaled_dot_product_attention(
            query.double(), *repeated, attn_mask=mask, scale=scaling
        )
        for few in (0, 32):
            given = attention(few, query, key, value, mask, scaling=scaling)
            assert given.dtype is dtype and given.is_contiguous()
            near = 4 * torch.finfo(dtype).eps * float(exact.abs().max())
            torch.testing.assert_close(given.double(), exact.transpose(1, 2), rtol=0, atol=max(near, 1e-6))


@pytest.mark.parametrize("tokens", [1, 40])
def test_capped_scores_are_those_of_transformers_plain_attention(tokens):
    query, key, value = torch.randn(2, 4, tokens, 16), torch.randn(2, 2, 50, 16), torch.randn(2, 2, 50, 24)
    mask = torch.rand(2, 1, tokens, 50) < 0.7
    module = SimpleNamespace(num_key_value_groups=2, training=False)
    added = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    for cap in (0.5, 3.0):
        wanted, _ = eager_attention_forward(module, query, key, value, added, scaling=0.7, softcap=cap)
        given = attention(32, query, key, value, mask, scaling=0.7, softcap=cap)
        torch.testing.assert_close(given, wanted)
        assert not torch.allclose(given, attention(32, query, key, value, mask, scaling=0.7))


def test_a_row_has_the_same_bits_in_any_company():
    query, key, value = torch.randn(16, 6, 1, 16), torch.randn(16, 2, 70, 16), torch.randn(16, 2, 70, 16)
    mask = torch.rand(16, 1, 1, 70) < 0.8
    whole = attention(32, query, key, value, mask)
    for count in range(1, 16):
        assert torch.equal(
            attention(32, query[:count], key[:count], value[:count], mask[:count]), whole[:count]
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shared", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("size", [32, 64, 128])
def test_where_bits_count_they_do_not_depend_on_the_longest_neighbour(dtype, shared, size):
    query = torch.randn(1, shared, 1, size).to(dtype)
    key, value = torch.randn(2, 1, 1, 768, size).to(dtype)
    mask = torch.arange(768) < 190
    by_width = [
        attention(0, query, key[:, :, :width], value[:, :, :width], mask[None, None, None, :width])
        for width in (192, 256, 448, 768)
    ]
    assert all(torch.equal(each, by_width[0]) for each in by_width)


def test_a_bad_row_harms_no_other_and_a_token_that_sees_nothing_is_finite():
    query, key, value = torch.randn(3, 6, 1, 16), torch.randn(3, 2, 8, 16), torch.randn(3, 2, 8, 16)
    mask = torch.ones(3, 1, 1, 8, dtype=torch.bool)
    mask[2] = False
    good = attention(32, query, key, value, mask)
    key[0, 0, 3, 1] = torch.nan
    bad = attention(32, query, key, value, mask)
    assert bad[0].isnan().any() and torch.equal(bad[1:], good[1:]) and good.isfinite().all()


def test_what_is_hidden_has_no_weight_however_low_the_scores_are():
    query, key = torch.full((1, 1, 1, 16), 100.0), torch.full((1, 1, 4, 16), -100.0)
    value = torch.ones(1, 1, 4, 16)
    value[:, :, 3] = 50.0
    mask = torch.tensor([True, True, True, False])[None, None, None]
    assert torch.equal(attention(32, query, key, value, mask), torch.ones(1, 1, 1, 16))


@pytest.fixture(scope="module")
def shared_by_four(tmp_path_factory):
    """Four query heads on one key head, as far as equal bits can go."""
    folder = build_tiny_model(tmp_path_factory.mktemp("models") / "four", heads=(4, 1), head_size=64)
    return load_for_slots(load_settings(model=str(folder), engine={"deterministic": True, "rows": 16}))


def test_deterministic_rows_have_the_same_bits_beside_shorter_and_longer_ones(shared_by_four):
    tasks = [
        task(i, "x" * (18 * i + 5), seed=i, temperature=0.8, max_new_tokens=12, top_logprobs=0)
        for i in range(16)
    ]
    seen: list[dict[str, float | None]] = []
    for some in (tasks, tasks[:5], tasks[5:9]):
        with running(shared_by_four, rows=16, deterministic=True) as (engine, recorder):
            done = run_all(engine, recorder, some)
        seen.append({each.key.request_id: each.mean_logprob for each in done})
    assert len(seen[0]) == 16
    assert all(seen[0][name] == logprob for part in seen[1:] for name, logprob in part.items())


def test_the_kernel_is_given_the_cache_itself(tiny, monkeypatch):
    heads: list[tuple[int, int]] = []
    plain = functional.scaled_dot_product_attention

    def watched(query, key, value, **options):
        heads.append((key.shape[1], value.shape[1]))
        return plain(query, key, value, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    by_kernel = copy.deepcopy(tiny.model)
    assert group_heads(by_kernel, same_bits=True)
    logits_of(tiny, by_kernel)
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


def test_a_bias_by_position_and_a_mask_of_numbers_are_left_to_transformers(grouped):
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
    added = torch.where(mask, bias, -torch.inf)
    given, _ = attend(module, query, key, value, added, scaling=0.5)
    torch.testing.assert_close(given, wanted)


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
