"""Prompts are read in chunks between steps, once for all samples, and only where they differ."""

from __future__ import annotations

import math

import pytest
import torch
from engine_support import Forwards, altered, reference, run_all, running, task

from pipeline.engine.base import TaskKey
from pipeline.engine.slots import SlotEngine
from pipeline.errors import ModelLoadError
from pipeline.events import FinishReason

LONG = "The quick brown fox. " * 20
SESSION = ["Be brief. " * 12 + question for question in ("Why?", "Why not?", "How?", "")]


def texts(loaded, tasks, **engine):
    with running(loaded, **engine) as (slots, recorder):
        return [one.text for one in run_all(slots, recorder, tasks)]


@pytest.mark.parametrize("prompt", ["x", LONG, "y" * (128 - 18), "y" * (129 - 18)])
@pytest.mark.parametrize("chunk", [16, 64])
def test_greedy_equals_generate_whatever_the_chunk(tiny, prompt, chunk):
    wanted = reference(tiny, prompt, 16)
    with running(tiny, prefill_chunk=chunk) as (engine, recorder):
        (one,) = run_all(
            engine, recorder, [task(1, prompt, temperature=0, max_new_tokens=16, top_logprobs=0)]
        )
    assert [position.drawn.token for position in one.positions] == wanted


@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_go_on_while_a_long_prompt_is_read(tiny, deterministic):
    forwards = Forwards()
    with running(altered(tiny, forwards), rows=3, prefill_chunk=32, deterministic=deterministic) as (
        engine,
        recorder,
    ):
        engine.submit(task("first", "a", temperature=0, max_new_tokens=60))
        recorder.wait_tokens(TaskKey("first", 0, 0), 2)
        forwards.seen.clear()
        engine.submit(task("long", LONG, temperature=0, max_new_tokens=3))
        engine.submit(task("behind", "b", temperature=0, max_new_tokens=3))
        recorder.wait_done(3)
    chunks = [size for size in forwards.seen if size > 1]
    assert sum(chunks) >= len(LONG) and max(chunks) <= 32
    first, last = forwards.seen.index(32), len(forwards.seen) - forwards.seen[::-1].index(32)
    for one, next_one in zip(forwards.seen[first:last], forwards.seen[first + 1 : last], strict=False):
        assert 1 in (one, next_one), "two chunks without a step between"


def test_rows_wait_for_the_last_chunk_or_for_a_wider_cache_and_not_for_both(tiny):
    forwards: list[tuple[int, ...]] = []

    def hook(ids, _positions, logits):
        forwards.append(tuple(ids.shape))
        return logits

    with running(altered(tiny, hook), rows=3, prefill_chunk=32) as (engine, recorder):
        engine.submit(task("first", "a", temperature=0, max_new_tokens=60))
        recorder.wait_tokens(TaskKey("first", 0, 0), 2)
        engine.submit(task("long", LONG, temperature=0, max_new_tokens=3))
        recorder.wait_done(2)
        forwards.append((0, 0))
        engine.submit(task("longer", LONG[:-1], temperature=0, max_new_tokens=30))
        recorder.wait_started(TaskKey("longer", 0, 0), 1)
        engine.submit(task("short", "b", temperature=0, max_new_tokens=3))
        recorder.wait_done(4)
    mark = forwards.index((0, 0))
    last = max(place for place, (_, tokens) in enumerate(forwards[:mark]) if tokens > 1)
    assert forwards[last + 1 : last + 3] == [(1, 1), (2, 1)]
    short = max(place for place, (_, tokens) in enumerate(forwards) if tokens > 1)
    rows = forwards[short - 1][0]
    assert forwards[short + 1] == (rows + 1, 1), "what fits beside the others joins at once"


def test_a_seed_draws_the_same_whatever_the_chunk(tiny):
    tasks = [
        task(i, LONG[: 60 * i + 5], seed=i, temperature=0.9, top_p=0.95, max_new_tokens=10) for i in range(4)
    ]
    outcomes = {tuple(texts(tiny, tasks, prefill_chunk=chunk)) for chunk in (16, 48, 1024)}
    assert len(outcomes) == 1


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("prefix_bytes", [0, 2**20])
def test_samples_of_one_prompt_read_it_once_even_when_they_do_not_all_fit(tiny, rows, prefix_bytes):
    forwards = Forwards()
    with running(altered(tiny, forwards), rows=rows, prefix_bytes=prefix_bytes) as (engine, recorder):
        forwards.seen.clear()
        tasks = [task("n", index=i, seed=i, temperature=1.0, max_new_tokens=3 + i) for i in range(5)]
        run_all(engine, recorder, tasks)
    assert len([size for size in forwards.seen if size > 1]) == 1


@pytest.mark.parametrize("deterministic", [False, True])
def test_prompts_that_begin_alike_read_only_where_they_differ(tiny, deterministic):
    tasks = [task(i, prompt, temperature=0, max_new_tokens=20) for i, prompt in enumerate(SESSION)]
    forwards = Forwards()
    with running(altered(tiny, forwards), deterministic=deterministic, prefill_chunk=32) as (
        engine,
        recorder,
    ):
        forwards.seen.clear()
        shared = run_all(engine, recorder, tasks)
    read = sum(size for size in forwards.seen if size > 1)
    longest = max(one.prompt_tokens for one in shared)
    assert read <= longest + 3 * (64 if deterministic else 32)
    forwards.seen.clear()
    with running(altered(tiny, forwards), prefix_bytes=0, prefill_chunk=32) as (engine, recorder):
        forwards.seen.clear()
        unshared = run_all(engine, recorder, tasks)
    assert sum(size for size in forwards.seen if size > 1) > 3 * 100
    assert [one.text for one in shared] == [one.text for one in unshared]
    for one, prompt in zip(shared, SESSION, strict=True):
        assert one.completion_tokens == len(reference(tiny, prompt, 20))


def test_what_was_read_before_changes_no_bit_in_deterministic_mode(tiny):
    probe = task("probe", SESSION[1], seed=5, temperature=1.0, max_new_tokens=30, top_logprobs=3)
    outcomes = set()
    for before in ([], SESSION[:1], SESSION[2:], [SESSION[1] + " And then?"], [SESSION[0][:70]]):
        with running(tiny, rows=3, deterministic=True, prefill_chunk=32) as (engine, recorder):
            tasks = [task(i, prompt, temperature=0, max_new_tokens=4) for i, prompt in enumerate(before)]
            outcomes.add(run_all(engine, recorder, [*tasks, probe])[-1].positions)
    assert len(outcomes) == 1


def test_cancel_and_deadline_end_a_prompt_that_is_being_read(tiny):
    now, chunks = [1000.0], []
    started: list[SlotEngine] = []

    def hook(ids, positions, logits):
        if started and ids.shape[1] == 16:
            chunks.append(int(positions[0, -1]))
            if len(chunks) == 3:
                started[0].cancel(TaskKey("cancelled", 0, 0))
            if len(chunks) == 6:
                now[0] = 2000.0
        return logits

    with running(altered(tiny, hook), clock=lambda: now[0], prefill_chunk=16) as (engine, recorder):
        started.append(engine)
        engine.submit(task("cancelled", LONG, deadline=5000.0))
        engine.submit(task("late", LONG[::-1], deadline=1500.0))
        engine.submit(task("fine", "x", deadline=5000.0, max_new_tokens=3))
        found = recorder.wait_done(3)
    assert len(chunks) <= 7
    assert [found[TaskKey(name, 0, 0)].finish_reason for name in ("cancelled", "late", "fine")] == [
        FinishReason.CANCELLED,
        FinishReason.TIMEOUT,
        FinishReason.LENGTH,
    ]


def test_a_prompt_of_nan_is_not_found_again(tiny):
    """Numbers that went wrong once must not be borrowed by the next prompt that begins alike."""
    broken = [True]

    def hook(ids, positions, logits):
        if broken[0] and ids.shape[1] > 1 and positions[0, -1] > 100:
            logits[:] = math.nan
        return logits

    with running(altered(tiny, hook)) as (engine, recorder):
        (bad,) = run_all(engine, recorder, [task("bad", SESSION[0])])
        assert bad.error.code == "non_finite_logits"
        broken[0] = False
        for name in ("same", "alike"):
            engine.submit(task(name, SESSION[0] if name == "same" else SESSION[1], max_new_tokens=4))
        found = recorder.wait_done(3)
    assert [found[TaskKey(name, 0, 0)].error for name in ("same", "alike")] == [None, None]


@pytest.mark.parametrize("when", ["first", "with neighbours"])
def test_short_of_memory_kept_prompts_are_given_up_before_any_row(tiny, when):
    """The next chunk fits only once what is kept of older prompts is gone."""
    failed = []

    def hook(ids, positions, logits):
        if ids.shape[1] == 13 and not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return logits

    odd = "z" * (13 - len("[user]\n[assistant]") - 1 + 16)
    others = [task(i, "w" * i, temperature=0, max_new_tokens=30) for i in range(2 if when != "first" else 0)]
    with running(tiny, rows=1) as (engine, recorder):
        alone = run_all(engine, recorder, [*others, task("odd", odd, temperature=0, max_new_tokens=9)])
    with running(altered(tiny, hook), rows=4, prefill_chunk=16) as (engine, recorder):
        run_all(engine, recorder, [task("kept", "k", max_new_tokens=1)])
        for each in [*others, task("odd", odd, temperature=0, max_new_tokens=9)]:
            engine.submit(each)
        found = recorder.wait_done(len(others) + 2)
    assert failed
    assert [found[one.key].text for one in alone] == [one.text for one in alone]


def test_ready_means_warm(tiny):
    forwards = Forwards()
    with running(altered(tiny, forwards)):
        assert {1, 2, 4} <= set(forwards.seen)


def test_a_model_that_reads_chunks_otherwise_is_refused_at_the_start(tiny):
    def hook(ids, positions, logits):
        raise ZeroDivisionError("no past")

    with pytest.raises(ModelLoadError, match="no past"), running(altered(tiny, hook)):
        pass
