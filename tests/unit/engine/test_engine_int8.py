"""Int8 weights: close to the full ones, checked at loading, and refused where they harm."""

from __future__ import annotations

import copy

import pytest
import torch
from engine_support import load_tiny, run_all, running, task
from torch import nn

from pipeline.engine import int8
from pipeline.engine.int8 import Int8Linear, quantise
from pipeline.engine.model import load_model
from pipeline.engine.vision_model import load_vision_model
from pipeline.errors import ModelLoadError
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


def int8_settings(folder, **engine):
    return load_settings(model=str(folder), engine={"weights": "int8", **engine})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_is_off_by_half_a_step_a_weight_at_most(dtype, bias):
    torch.manual_seed(0)
    linear = nn.Linear(24, 16, bias=bias)
    with torch.no_grad():
        linear.weight[3] = 0
        linear.weight[5] *= 1000
    step = linear.weight.abs().amax(1) / 127
    rounded = Int8Linear(linear)
    kept = rounded.weight.float() * rounded.scale[:, None]
    assert bool(((kept - linear.weight).abs() <= step[:, None] * 0.5001).all())
    inputs = torch.randn(2, 3, 24)
    expected = inputs @ kept.T + (linear.bias if bias else 0)
    actual = Int8Linear(linear.to(dtype))(inputs.to(dtype)).float()
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())


def test_linear_layers_are_int8_but_embeddings_and_output_are_not(folder):
    loaded = load_model(int8_settings(folder))
    kinds = {name: type(module) for name, module in loaded.model.named_modules()}
    assert kinds["lm_head"] is nn.Linear and kinds["model.embed_tokens"] is nn.Embedding
    layers = [kind for name, kind in kinds.items() if name.endswith("_proj")]
    assert layers == [Int8Linear] * 14
    assert loaded.model.num_parameters() > load_tiny(folder).model.num_parameters()  # the scales


def test_slots_draw_what_the_int8_model_draws_alone(folder):
    loaded = load_model(int8_settings(folder))
    tasks = [task(i, "q" * (9 * i + 1), seed=i, temperature=0.8, max_new_tokens=12) for i in range(4)]
    with running(loaded) as (engine, recorder):
        together = [one.text for one in run_all(engine, recorder, tasks)]
    for each, text in zip(tasks, together, strict=True):
        with running(loaded, rows=1) as (engine, recorder):
            assert run_all(engine, recorder, [each])[0].text == text


def test_a_model_that_int8_harms_is_refused_with_both_figures(folder, monkeypatch):
    def harm(model):
        quantise(model)
        with torch.no_grad():
            model.model.norm.weight *= 4  # surer of itself, and no better

    monkeypatch.setattr(int8, "quantise", harm)
    with pytest.raises(ModelLoadError, match=r"from \d+\.\d\d to \d+\.\d\d.*5%.*WEIGHTS=full") as caught:
        load_model(int8_settings(folder))
    assert caught.value.field == "engine.weights"


def test_numbers_that_are_none_do_not_pass(tiny, monkeypatch):
    monkeypatch.setattr(int8, "perplexity", lambda _model, _ids: float("nan"))
    with pytest.raises(ModelLoadError):
        int8.quantise_checked(copy.deepcopy(tiny.model), tiny.tokenizer, tiny.context)


def test_the_engine_vision_refuses_int8(folder):
    with pytest.raises(ModelLoadError, match="WEIGHTS=full"):
        load_vision_model(int8_settings(folder))
