"""Bad tasks, bad numbers and full memory: what fails fails alone, with a code, and the engine goes on."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from engine_support import Forwards, altered, failing_late, run_all, running, task

from pipeline.engine.base import GenerationTask, SamplingParams, TaskKey
from pipeline.engine.cache import SlotCache
from pipeline.engine.prefix import PrefixStore
from pipeline.errors import GenerationError, ModelLoadError
from pipeline.events import FinishReason, Message


def good(name, **params):
    return task(name, "fine", seed=3, temperature=0.8, max_new_tokens=12, **params)


@pytest.mark.parametrize("prompt", ["", "   ", "\n\t"])
def test_an_empty_prompt_fails_alone(tiny, prompt):
    """F07."""
    with running(tiny) as (engine, recorder):
        first, empty, last = run_all(engine, recorder, [good(1), task(2, prompt), good(3)])
    assert (empty.finish_reason, empty.error.code) == (FinishReason.ERROR, "empty_prompt")
    assert first.text == last.text and first.error is None


def test_images_are_refused_and_not_passed_over(tiny):
    shown = replace(good("shown"), images=(b"\x89PNG",))
    with running(tiny) as (engine, recorder):
        first, refused, last = run_all(engine, recorder, [good(1), shown, good(3)])
    assert (refused.error.code, refused.error.retriable) == ("unsupported_sampling", False)
    assert "images" in refused.error.message and "engine vision" in refused.error.message
    assert first.text == last.text and first.error is None


def test_no_message_or_only_a_system_turn_is_an_empty_prompt(tiny):
    tasks = [
        GenerationTask(TaskKey("none", 0, 0), (), SamplingParams(), 1e12),
        GenerationTask(TaskKey("system", 0, 0), (Message("system", "be kind"),), SamplingParams(), 1e12),
    ]
    with running(tiny) as (engine, recorder):
        assert [one.error.code for one in run_all(engine, recorder, tasks)] == ["empty_prompt"] * 2


def test_a_prompt_longer_than_the_context_says_both_numbers(tiny):
    with running(tiny, context=64) as (engine, recorder):
        long, fits = run_all(engine, recorder, [task("long", "w" * 100), good("fits")])
    assert long.error.code == "prompt_too_long"
    assert "64" in long.error.message and str(100 + len("[user]\n[assistant]") + 1) in long.error.message
    assert fits.error is None


def test_a_budget_over_the_context_is_cut_to_it(tiny):
    """F06: 1,000 tokens of prompt, 500 wanted, a context of 1,024."""
    prompt = "p" * (1000 - len("[user]\n[assistant]") - 1)
    with running(tiny, context=1024) as (engine, recorder):
        (completion,) = run_all(engine, recorder, [task(1, prompt, temperature=0, max_new_tokens=500)])
    assert completion.prompt_tokens == 1000
    assert completion.completion_tokens == 24
    assert completion.finish_reason is FinishReason.LENGTH


BAD_PARAMS = [
    {"temperature": -0.1},
    {"temperature": math.nan},
    {"temperature": math.inf},
    {"temperature": "hot"},
    {"temperature": None},
    {"top_p": 0.0},
    {"top_p": 1.5},
    {"top_p": math.nan},
    {"top_k": -1},
    {"top_k": 0.5},
    {"min_p": -0.1},
    {"min_p": 1.1},
    {"min_p": "few"},
    {"repetition_penalty": 0},
    {"repetition_penalty": math.inf},
    {"repetition_penalty": 1e-40},
    {"repetition_penalty": 10**400},
    {"temperature": 10**400},
    {"top_logprobs": -1},
    {"top_logprobs": 21},
    {"top_logprobs": True},
    {"max_new_tokens": 0},
    {"max_new_tokens": -5},
    {"max_new_tokens": 2.5},
    {"seed": 2**63},
    {"seed": "lucky"},
    {"stop": (1, 2)},
    {"stop": 7},
]


@pytest.mark.parametrize("params", BAD_PARAMS, ids=str)
def test_invalid_sampling_names_the_parameter(tiny, params):
    with running(tiny) as (engine, recorder):
        bad, fine = run_all(engine, recorder, [task("bad", **params), good("fine")])
    assert bad.finish_reason is FinishReason.ERROR
    assert bad.error.code == "invalid_sampling"
    assert next(iter(params)) in bad.error.message
    assert fine.error is None


def test_whole_numbers_are_temperatures_too(tiny):
    with running(tiny) as (engine, recorder):
        one, other = run_all(
            engine, recorder, [task(1, temperature=1, seed=4), task(2, temperature=1.0, seed=4)]
        )
    assert one.error is None and one.text == other.text


def test_a_row_of_nan_fails_alone_and_leaves_no_trace_in_its_slot(tiny):
    """F04: one row of four gives NaN; a later task in the same slot is right."""

    with running(tiny) as (engine, recorder):
        healthy = run_all(engine, recorder, [good(i) for i in range(1)])[0].text
    with running(failing_late(tiny)) as (engine, recorder):
        tasks = [good(1), task(2, "n" * 105, max_new_tokens=200, temperature=0.5), good(3), good(4), good(5)]
        first, bad, *others = run_all(engine, recorder, tasks)
    assert bad.finish_reason is FinishReason.ERROR
    assert bad.error.code == "non_finite_logits"
    assert [one.text for one in (first, *others)] == [healthy] * 4


def test_nan_in_the_cache_does_not_reach_the_next_row(tiny):
    """Keys of NaN behind a row's end have no weight, but nought times NaN would be NaN."""
    weight = tiny.model.get_input_embeddings().weight
    poison = tiny.tokenizer("~", add_special_tokens=False)["input_ids"][0]
    kept = weight[poison].clone()
    with running(tiny, rows=2) as (engine, recorder):
        with torch.no_grad():
            weight[poison] = math.nan
        try:
            tasks = [good(0), task(1, "~" * 50), good(2), good(3)]
            completions = run_all(engine, recorder, tasks)
        finally:
            with torch.no_grad():
                weight[poison] = kept
    assert [one.error.code if one.error else None for one in completions] == [
        None,
        "non_finite_logits",
        None,
        None,
    ]


class Scarce:
    """Memory for so many rows only."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most, self.error, self.tried = most, error, []

    def __call__(self, ids, positions, logits):
        if ids.shape[1] == 1:
            self.tried.append(len(ids))
            if len(ids) > self.most:
                raise self.error
        return logits


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["device", "host"],
)
def test_out_of_memory_is_tried_again_with_fewer_rows(tiny, error):
    """F10: room for two; seven tasks come out as they do alone."""
    tasks = [task(i, "p" * (i + 1), seed=i, temperature=0.9, max_new_tokens=10) for i in range(7)]
    with running(tiny, rows=1) as (engine, recorder):
        alone = run_all(engine, recorder, tasks)
    scarce = Scarce(2, error)
    with running(altered(tiny, scarce), rows=7) as (engine, recorder):
        together = run_all(engine, recorder, tasks)
    assert [one.text for one in together] == [one.text for one in alone]
    sizes = [size for size in scarce.tried if size > 2]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) <= 3


def test_out_of_memory_with_one_row_gives_up_on_that_row(tiny):
    scarce = Scarce(7, torch.OutOfMemoryError("CUDA out of memory"))
    with running(altered(tiny, scarce)) as (engine, recorder):
        scarce.most = 0
        (hopeless,) = run_all(engine, recorder, [good("hopeless")])
        assert (hopeless.error.code, hopeless.error.retriable) == ("out_of_memory", True)
        scarce.most = 9
        engine.submit(good("later"))
        assert recorder.wait_done(2)[good("later").key].error is None


@pytest.mark.parametrize("most_rows", [1, 2])
def test_a_cache_that_can_not_grow_lets_the_newest_wait(tiny, most_rows, monkeypatch):
    tasks = [task(i, "p" * (40 + i), seed=i, temperature=0.9, max_new_tokens=60) for i in range(4)]
    with running(tiny, rows=1) as (engine, recorder):
        alone = run_all(engine, recorder, tasks)
    reserve = SlotCache.reserve

    def scarce(cache, rows, length):
        if length > 80 and rows > most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        reserve(cache, rows, length)

    monkeypatch.setattr(SlotCache, "reserve", scarce)
    with running(tiny, rows=4) as (engine, recorder):
        assert [one.text for one in run_all(engine, recorder, tasks)] == [one.text for one in alone]


def test_a_cache_that_can_not_grow_takes_memory_from_kept_prompts_before_any_row_leaves(tiny, monkeypatch):
    cleared: list[bool] = []
    reserve, clear = SlotCache.reserve, PrefixStore.clear

    def scarce(cache, rows, length):
        if length > 64 and not cleared:
            raise torch.OutOfMemoryError("CUDA out of memory")
        reserve(cache, rows, length)

    def giving_way(store, **options):
        cleared.append(clear(store, **options))
        return cleared[-1]

    monkeypatch.setattr(SlotCache, "reserve", scarce)
    monkeypatch.setattr(PrefixStore, "clear", giving_way)
    forwards = Forwards()
    tasks = [task(i, "p" * (20 + i), temperature=0, max_new_tokens=40) for i in range(3)]
    with running(altered(tiny, forwards), rows=3, prefix_bytes=0) as (engine, recorder):
        forwards.seen.clear()
        run_all(engine, recorder, tasks)
    assert cleared == [True]
    assert len([size for size in forwards.seen if size > 1]) == 3, "a row left and was read again"


def test_a_cache_too_large_for_one_row_fails_that_row_alone(tiny, monkeypatch):
    reserve = SlotCache.reserve

    def scarce(cache, rows, length):
        if length > 60:
            raise torch.OutOfMemoryError("CUDA out of memory")
        reserve(cache, rows, length)

    monkeypatch.setattr(SlotCache, "reserve", scarce)
    with running(tiny, rows=4) as (engine, recorder):
        tasks = [task("prompt", "p" * 90), task("grows", "p" * 30, max_new_tokens=80, temperature=0), good(1)]
        prompt, grows, fine = run_all(engine, recorder, tasks)
    assert prompt.error.code == grows.error.code == "out_of_memory"
    assert 0 < grows.completion_tokens < 80
    assert fine.error is None


def test_an_unexpected_error_fails_only_the_row_that_causes_it(tiny):
    def hook(ids, positions, logits):
        if (positions[:, -1] > 130).any():
            raise ZeroDivisionError("surprise")
        return logits

    with running(altered(tiny, hook)) as (engine, recorder):
        tasks = [good(1), task(2, "n" * 105, max_new_tokens=200, temperature=0.5, seed=1), good(3)]
        first, bad, last = run_all(engine, recorder, tasks)
        assert bad.error.code == "engine_error" and "surprise" in bad.error.message
        assert first.error is last.error is None
        engine.submit(good("later"))
        assert recorder.wait_done(4)[good("later").key].error is None


def test_an_error_outside_any_row_ends_what_runs_and_the_thread_lives_on(tiny, monkeypatch):
    from pipeline.engine import decode_loop

    def broken(*_args):
        raise ZeroDivisionError("surprise")

    with running(tiny) as (engine, recorder):
        with monkeypatch.context() as patch:
            patch.setattr(decode_loop, "draw", broken)
            failed = run_all(engine, recorder, [good(1), good(2)])
        assert {one.error.code for one in failed} == {"engine_error"}
        engine.submit(good("later"))
        assert recorder.wait_done(3)[good("later").key].error is None


def test_a_thousand_bad_tasks_harm_no_neighbour(tiny):
    """Errors of every kind, NaN in one row and duplicate ids among 100 good tasks, in random order."""
    chance = random.Random(7)
    healthy_text = None
    kinds = ["good"] * 100 + ["nan"] * 100 + ["prompt"] * 200 + ["late"] * 200 + ["params"] * 500
    chance.shuffle(kinds)
    tasks: list[GenerationTask] = []
    for number, kind in enumerate(kinds):
        match kind:
            case "good":
                # A stop given as a text and a whole temperature are not errors.
                tasks.append(
                    task(
                        f"good-{number}", "fine", seed=3, temperature=1, max_new_tokens=4, stop="\0", top_k=5
                    )
                )
            case "nan":
                tasks.append(task(f"bad-{number}", "n" * 40 + chr(97 + number % 26), max_new_tokens=4))
            case "prompt":
                tasks.append(task(f"bad-{number}", chance.choice(["", " ", "z" * 5000])))
            case "late":
                tasks.append(task(f"late-{number}", deadline=0.0))
            case _:
                tasks.append(task(f"bad-{number}", **chance.choice(BAD_PARAMS)))

    def nan_when_long(ids, positions, logits):
        logits[positions[:, -1] > 50] = math.nan
        return logits

    with running(altered(tiny, nan_when_long), rows=8) as (engine, recorder):
        accepted = []
        for each in tasks:
            # A second of the same id is refused while the first lives, and is a task of its own afterwards.
            twins = [each] * (1 + (chance.random() < 0.2))
            accepted += [twin.key for twin in twins if engine.submit(twin)]
        recorder.wait_done(len(accepted))
    completions = recorder.completions
    assert len(accepted) >= len(tasks)
    assert sorted(one.key for one in completions) == sorted(accepted)
    for one in completions:
        kind = one.key.request_id.partition("-")[0]
        if kind == "good":
            healthy_text = healthy_text or one.text
            assert one.error is None and one.text == healthy_text
        else:
            assert (one.error is not None) == (kind == "bad")


def test_a_model_without_plain_keys_and_values_is_refused_at_the_start(tiny):
    def wrong(ids, positions, logits):
        return logits.flip(-1)

    with pytest.raises(ModelLoadError, match="decoder model"), running(altered(tiny, wrong)):
        pass


def test_every_error_of_a_sample_is_in_the_tree():
    from pipeline.errors import (
        BadMessagesError,
        ContextExceededError,
        EmptyPromptError,
        InvalidSamplingError,
        NonFiniteLogitsError,
    )

    kinds = [
        ContextExceededError,
        NonFiniteLogitsError,
        InvalidSamplingError,
        BadMessagesError,
        EmptyPromptError,
    ]
    assert all(issubclass(kind, GenerationError) for kind in kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)
