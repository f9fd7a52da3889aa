"""The bounds of the cache: what does not fit waits, nothing is refused and nothing changes but the time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_support import engine_settings, run_all, running, task

from pipeline.engine.cache import SlotCache
from pipeline.engine.slots import most_tokens


@pytest.fixture
def largest(monkeypatch):
    """Bytes of the largest cache there was, and the most rows that were asked for at once."""
    seen = {"bytes": 0, "rows": 0}
    reserve = SlotCache.reserve

    def watched(cache, rows, length):
        reserve(cache, rows, length)
        seen["bytes"] = max(seen["bytes"], cache.bytes)
        seen["rows"] = max(seen["rows"], rows)

    monkeypatch.setattr(SlotCache, "reserve", watched)
    return seen


def mixed():
    return [
        task(i, "p" * (13 * i + 1), seed=i, temperature=0.9, max_new_tokens=5 + 20 * (i % 3))
        for i in range(6)
    ]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("bound", [{"cache_tokens": 384}, {"cache_bytes": 384 * 256}])
def test_what_does_not_fit_waits(tiny, largest, bound, deterministic):
    token_bytes = 2 * 2 * 2 * 8 * 4  # keys and values of two layers, two heads of eight floats
    with running(tiny, rows=1, deterministic=deterministic) as (engine, recorder):
        alone = run_all(engine, recorder, mixed())
    largest.update(bytes=0, rows=0)
    rows = 2 if deterministic else 8
    with running(tiny, rows=rows, deterministic=deterministic, **bound) as (engine, recorder):
        together = run_all(engine, recorder, mixed())
    assert [one.text for one in together] == [one.text for one in alone]
    assert 0 < largest["bytes"] <= 384 * token_bytes
    assert largest["rows"] > 1


def test_a_row_that_grows_over_the_bound_makes_the_newest_wait(tiny, largest):
    tasks = [task(i, "p" * 30, seed=i, temperature=0.9, max_new_tokens=40) for i in range(3)]
    with running(tiny, rows=1) as (engine, recorder):
        alone = run_all(engine, recorder, tasks)
    largest.update(bytes=0, rows=0)
    with running(tiny, rows=3, cache_tokens=192) as (engine, recorder):
        together = run_all(engine, recorder, tasks)
    # Three rows fit while they are short of 64 tokens; with their answers one at a time does.
    assert largest["rows"] == 3
    assert [one.text for one in together] == [one.text for one in alone]
    assert recorder.completions[0].key == tasks[0].key


@pytest.mark.parametrize(("deterministic", "context"), [(False, 128), (True, 64)])
def test_the_bound_also_limits_the_context_so_that_one_row_always_fits(tiny, deterministic, context):
    endless = replace(tiny, eos_ids=frozenset())
    with running(endless, rows=2, deterministic=deterministic, cache_tokens=130) as (engine, recorder):
        long, cut = run_all(
            engine, recorder, [task("long", "w" * 200), task("cut", "w" * 30, max_new_tokens=500)]
        )
    assert long.error.code == "prompt_too_long" and str(context) in long.error.message
    assert cut.error is None and cut.prompt_tokens + cut.completion_tokens == context


def test_the_smaller_bound_counts_and_nought_is_none():
    for tokens, of_bytes, wanted in [(0, 0, 0), (100, 0, 100), (0, 1000, 10), (100, 1000, 10), (5, 1000, 5)]:
        assert most_tokens(engine_settings(cache_tokens=tokens, cache_bytes=of_bytes).engine, 100) == wanted
