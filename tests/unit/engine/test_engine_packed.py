"""Packed layers: the same answers, whoever else runs; and where they can not be, nothing changes."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from engine_support import reference, run_all, running, task
from torch import nn

from pipeline.engine import packed
from pipeline.engine.grouped_heads import group_heads
from pipeline.engine.int8 import Int8Linear, quantise
from pipeline.engine.packed import PackedLinear, pack
from pipeline.engine.slots import SlotEngine, load_for_slots
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def tuned_tiny(tiny):
    """As the engine has it: attention that copies nothing, too."""
    model = copy.deepcopy(tiny.model)
    assert pack(model, 16) == sum(type(each) is nn.Linear for each in tiny.model.modules())
    assert group_heads(model)
    assert not any(type(each) is nn.Linear for each in model.modules())
    return replace(tiny, model=model)


@pytest.mark.parametrize("deterministic", [False, True])
def test_greedy_equals_generate_of_the_plain_model_in_any_mix(tiny, tuned_tiny, deterministic):
    prompts = [f"{'x' * (13 * i)} question {i}" for i in range(16)]
    wanted = [reference(tiny, prompt, 12 + i) for i, prompt in enumerate(prompts)]
    tasks = [
        task(i, prompt, temperature=0, max_new_tokens=12 + i, top_logprobs=0)
        for i, prompt in enumerate(prompts)
    ]
    with running(tuned_tiny, rows=16, deterministic=deterministic) as (engine, recorder):
        drawn = run_all(engine, recorder, tasks)
    assert [[position.drawn.token for position in each.positions] for each in drawn] == wanted


@pytest.mark.parametrize("deterministic", [False, True])
def test_same_seed_same_tokens_at_every_batch_size(tuned_tiny, deterministic):
    outcomes: set[tuple[int, ...]] = set()
    bits: set[float | None] = set()
    for company in range(16):
        with running(tuned_tiny, rows=16, deterministic=deterministic) as (engine, recorder):
            others = [
                task(f"o{i}", "y" * (9 * i + 1), seed=i, max_new_tokens=3 * i + 2) for i in range(company)
            ]
            probe = task("probe", "probe me", seed=11, temperature=0.9, max_new_tokens=30, top_logprobs=0)
            completion = run_all(engine, recorder, [*others, probe])[-1]
        outcomes.add(tuple(position.drawn.token for position in completion.positions))
        bits.add(completion.mean_logprob)
    assert len(outcomes) == 1
    if deterministic:
        assert len(bits) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_gives_the_plain_ones_numbers_for_any_shape_and_a_bad_row_harms_no_other(dtype, bias):
    plain = nn.Linear(96, 40, bias=bias).to(dtype)
    layer = PackedLinear(plain, 16)
    with torch.inference_mode():
        for shape in ((1, 1, 96), (5, 96), (3, 200, 96)):
            inputs = torch.randn(shape).to(dtype)
            torch.testing.assert_close(layer(inputs), plain(inputs), rtol=2e-2, atol=1e-2)
        inputs = torch.randn(4, 96).to(dtype)
        good = layer(inputs)
        inputs[1, 7] = torch.nan
        bad = layer(inputs)
    assert bad[1].isnan().all()
    assert torch.equal(bad[[0, 2, 3]], good[[0, 2, 3]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_models_own_code_finds_the_weights(dtype):
    plain = nn.Linear(96, 40, bias=False).to(dtype)
    assert torch.equal(PackedLinear(plain, 16).weight, plain.weight)


def test_what_is_no_plain_layer_is_left_as_it_is(tiny):
    model = copy.deepcopy(tiny.model)
    quantise(model)
    assert pack(model, 8) == 1
    assert type(model.get_output_embeddings()) is PackedLinear
    assert any(type(each) is Int8Linear for each in model.modules())
    half = copy.deepcopy(tiny.model).half()
    assert pack(half, 8) == 0


def test_where_it_can_not_be_or_would_give_other_numbers_nothing_changes(tiny, monkeypatch):
    model = copy.deepcopy(tiny.model)
    with monkeypatch.context() as without:
        without.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        assert pack(model, 8) == 0
    with monkeypatch.context() as without:
        without.setattr(packed, "_operators", lambda: None)
        assert pack(model, 8) == 0
    with monkeypatch.context() as wrong:
        wrong.setattr(PackedLinear, "forward", lambda self, inputs: inputs.new_ones(3, 1))
        assert pack(model, 8) == 0
    assert all(type(each) is not PackedLinear for each in model.modules())


@pytest.mark.parametrize("wanted", [True, False])
def test_the_slot_engine_packs_unless_it_is_told_not_to(tmp_path, wanted):
    folder = build_tiny_model(tmp_path / "tiny", context=64)
    settings = load_settings(model=str(folder), engine={"packed": wanted})
    model = load_for_slots(settings).model
    assert any(type(each) is PackedLinear for each in model.modules()) is wanted
    assert SlotEngine(settings)._load is load_for_slots
