"""What a model is like: how long its rows may be, and whether equal bits can be promised for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from engine_support import run_all, running, task
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
)

from pipeline.engine.base import Completion
from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.model_traits import limits, require_same_bits
from pipeline.engine.slots import load_for_slots, tune
from pipeline.errors import ModelLoadError
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model, tiny_llama, tiny_tokenizer

SMALL = {
    "vocab_size": 259,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def made(kind, config):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(config).eval()


def phi3():
    factors = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4}
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "original_max_position_embeddings": 128,
        **factors,
    }
    lengths = {"max_position_embeddings": 1024, "original_max_position_embeddings": 128}
    return made(Phi3ForCausalLM, Phi3Config(**SMALL, **lengths, rope_parameters=rope))


def gemma2():
    """A cap that is felt, windows that are not."""
    options = {"head_dim": 8, "attn_logit_softcapping": 0.5, "sliding_window": 512}
    return made(Gemma2ForCausalLM, Gemma2Config(**SMALL, **options, tie_word_embeddings=False))


def saved(model, folder) -> str:
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def test_longrope_is_kept_within_what_the_model_was_made_for_at_first(tmp_path):
    model = phi3()
    assert min(limits(model.config)) == 128
    assert load_model(load_settings(model=saved(model, tmp_path))).context == 128
    assert 128 not in limits(tiny_llama(context=1024).config)


def test_other_ropes_one_for_each_kind_of_layer_too_are_as_long_as_they_say():
    config = SimpleNamespace(
        max_position_embeddings=4096,
        sliding_window=None,
        original_max_position_embeddings=256,
        rope_parameters={"full": {"rope_type": "yarn"}, "local": {"rope_type": "default"}},
    )
    assert list(limits(config)) == [4096]
    config.rope_parameters["full"] = {"rope_type": "longrope"}
    assert list(limits(config)) == [4096, 256]
    config.rope_parameters["full"]["original_max_position_embeddings"] = 512
    assert list(limits(config)) == [4096, 512]


def test_capped_scores_are_capped(tmp_path):
    settings = load_settings(model=saved(gemma2(), tmp_path))
    loaded = load_for_slots(settings)
    plain = gemma2()
    plain.set_attn_implementation("eager")
    wanted = [_generated(plain, loaded, prompt) for prompt in ("hello", "a much longer question " * 4)]
    with running(loaded, rows=4) as (engine, recorder):
        done = run_all(engine, recorder, [_greedy(0, "hello"), _greedy(1, "a much longer question " * 4)])
    assert [_tokens(each) for each in done] == wanted
    without = gemma2()
    without.set_attn_implementation("sdpa")
    assert wanted != [
        _generated(without, loaded, prompt) for prompt in ("hello", "a much longer question " * 4)
    ]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: made(MixtralForCausalLM, MixtralConfig(**SMALL, num_local_experts=4)), "experts"),
        (gemma2, "caps"),
    ],
)
def test_equal_bits_are_refused_where_they_can_not_be(model, why, tmp_path):
    with pytest.raises(ModelLoadError, match=why) as raised:
        require_same_bits(model())
    assert raised.value.field == "engine.deterministic"
    settings = load_settings(model=saved(model(), tmp_path), engine={"deterministic": True})
    with pytest.raises(ModelLoadError, match="DETERMINISTIC=false"):
        load_for_slots(settings)
    tune(model(), load_settings().engine)


def test_a_plain_model_may_be_deterministic(tmp_path):
    folder = build_tiny_model(tmp_path / "tiny", context=64)
    load_for_slots(load_settings(model=str(folder), engine={"deterministic": True}))


def _greedy(number: int, prompt: str):
    return task(number, prompt, temperature=0, max_new_tokens=24, top_logprobs=0)


def _tokens(completion: Completion) -> list[int]:
    return [position.drawn.token for position in completion.positions]


def _generated(model, loaded: LoadedModel, prompt: str) -> list[int]:
    from pipeline.engine.prompts import PromptEncoder

    ids = PromptEncoder(loaded.tokenizer).encode(_greedy(0, prompt).messages)
    drawn = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=24, pad_token_id=0)
    return drawn[0, len(ids) :].tolist()
