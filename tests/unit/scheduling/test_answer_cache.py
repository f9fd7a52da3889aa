"""The same question again is answered from memory, which is bounded and ages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.base import Completion, GenerationTask, SamplingParams, TaskKey
from pipeline.events import ErrorInfo, FinishReason, Message
from pipeline.scheduling.answer_cache import AnswerCache

TASK = GenerationTask(TaskKey("a", 0, 0), (Message("user", "six times seven?"),), SamplingParams(), 60.0)
AGAIN = replace(TASK, key=TaskKey("b", 0, 0), deadline=99.0)
WHO = "acme"
ANSWER = Completion(TASK.key, "42", FinishReason.STOP, 9, 2, -0.5, 7, 1.0, 1.5, 2.0)


def test_the_same_question_gets_the_same_answer_as_its_own_and_spends_nothing() -> None:
    cache = AnswerCache(10_000, ttl=60.0)
    assert cache.get(WHO, AGAIN, 3.0) is None
    cache.put(WHO, TASK, ANSWER)
    found = cache.get(WHO, AGAIN, 3.0)
    assert found == replace(
        ANSWER,
        key=AGAIN.key,
        prompt_tokens=0,
        completion_tokens=0,
        started_at=3.0,
        first_token_at=3.0,
        finished_at=3.0,
        cached=True,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (Message("user", "six times seven? "),)},
        {"messages": (Message("system", "Be brief."), *TASK.messages)},
        {"params": SamplingParams(temperature=0.7)},
        {"params": SamplingParams(seed=1)},
        {"params": SamplingParams(max_new_tokens=8)},
        {"params": SamplingParams(stop=("\n",))},
        {"top_logprobs": 3},
        {"images": (b"\x89PNG",)},
        {"path": "crops"},
    ],
)
def test_whatever_a_sample_hangs_on_makes_it_another_question(change: dict[str, Any]) -> None:
    cache = AnswerCache(10_000, ttl=60.0)
    cache.put(WHO, TASK, ANSWER)
    assert cache.get(WHO, replace(AGAIN, **change), 3.0) is None


def test_no_tenant_is_told_what_another_one_asked() -> None:
    cache = AnswerCache(10_000, ttl=60.0)
    cache.put(WHO, TASK, ANSWER)
    assert cache.get("other", AGAIN, 3.0) is None and cache.get(WHO, AGAIN, 3.0)


@pytest.mark.parametrize(
    "change",
    [
        {"finish_reason": FinishReason.LENGTH},
        {"finish_reason": FinishReason.TIMEOUT},
        {"finish_reason": FinishReason.ERROR, "error": ErrorInfo("engine_error", "it broke")},
    ],
)
def test_what_is_not_whole_is_not_told_again(change: dict[str, Any]) -> None:
    cache = AnswerCache(10_000, ttl=60.0)
    cache.put(WHO, TASK, replace(ANSWER, **change))
    assert cache.get(WHO, AGAIN, 3.0) is None


def test_an_answer_ages_from_when_it_was_drawn_however_often_it_is_told() -> None:
    cache = AnswerCache(10_000, ttl=60.0)
    cache.put(WHO, TASK, ANSWER)
    told = cache.get(WHO, AGAIN, 61.9)
    assert told is not None
    cache.put(WHO, AGAIN, told)
    assert cache.get(WHO, AGAIN, 62.0) is None


def test_what_was_used_last_is_kept_and_nothing_is_kept_of_no_bytes() -> None:
    tasks = [replace(TASK, messages=(Message("user", str(number)),)) for number in range(3)]
    cache = AnswerCache(2 * 600, ttl=60.0)
    cache.put(WHO, tasks[0], ANSWER)
    cache.put(WHO, tasks[1], ANSWER)
    assert cache.get(WHO, tasks[0], 3.0)
    cache.put(WHO, tasks[2], ANSWER)
    assert [cache.get(WHO, task, 3.0) is not None for task in tasks] == [True, False, True]
    none = AnswerCache(0, ttl=60.0)
    none.put(WHO, TASK, ANSWER)
    assert none.get(WHO, AGAIN, 3.0) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3_000), st.booleans()), max_size=60))
def test_it_tells_what_was_put_last_within_its_bytes(steps: list[tuple[int, int, bool]]) -> None:
    most, last = 4_000, dict[int, str]()
    cache = AnswerCache(most, ttl=1e9)
    for count, (number, length, asks) in enumerate(steps):
        task = replace(TASK, messages=(Message("user", str(number)),))
        if asks:
            found = cache.get(WHO, task, 3.0)
            assert found is None or found.text == last[number]
        else:
            last[number] = f"{count}{'x' * length}"
            cache.put(WHO, task, replace(ANSWER, text=last[number]))
            assert (found := cache.get(WHO, task, 3.0)) and found.text == last[number]
    kept = [cache.get(WHO, replace(TASK, messages=(Message("user", str(n)),)), 3.0) for n in range(6)]
    assert sum(len(found.text) for found in kept if found) <= most
