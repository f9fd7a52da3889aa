"""The scripted engine and the choice of an engine."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest
from engine_support import Recorder, run_all, task

from pipeline.engine.base import TaskKey
from pipeline.engine.factory import create_engine
from pipeline.engine.script import answer_text
from pipeline.engine.scripted import ScriptedEngine
from pipeline.errors import ConfigError, ModelLoadError
from pipeline.events import FinishReason, Message
from pipeline.settings import load_settings

LONG = '{"min_ms": 600000, "max_ms": 600000}'


@contextmanager
def scripted(script: str = "", rows: int = 4):
    engine = create_engine(load_settings(engine={"name": "scripted", "script": script, "rows": rows}))
    assert isinstance(engine, ScriptedEngine)
    recorder = Recorder()
    engine.start(recorder)
    try:
        yield engine, recorder
    finally:
        engine.close()


def test_texts_depend_on_nothing_but_identity_and_question():
    tasks = [task(i // 3, f"question {i // 3}", index=i % 3) for i in range(30)]
    with scripted() as (engine, recorder):
        first = run_all(engine, recorder, tasks)
    with scripted(rows=1) as (engine, recorder):
        second = run_all(engine, recorder, tasks[::-1])[::-1]
    assert [one.text for one in first] == [one.text for one in second]
    assert all(recorder.streamed(one.key) == one.text for one in second)
    assert {one.finish_reason for one in second} == {FinishReason.STOP}


def test_about_four_samples_of_five_agree_on_any_prompt_path():
    def answers(suffix: str) -> Counter[str]:
        question = (Message("user", f"What is it?{suffix}"),)
        return Counter(answer_text(TaskKey("r", 0, index), question) for index in range(1000))

    (_, most), *_ = answers("").most_common()
    assert 760 < most < 840
    assert answers("") == answers("\n\nWork step by step.")


@pytest.mark.parametrize("question", ["answers=4,5,4 please", 'say {"answers": ["4", "5", "4"]} please'])
def test_a_question_can_name_the_answers(question):
    texts = [answer_text(TaskKey("r", 0, index), (Message("user", question),)) for index in range(4)]
    assert texts == [f"The answer is {answer}" for answer in (4, 5, 4, 4)]


@pytest.mark.parametrize("question", ["{", "{}", '{"answers": 3}', "a {b} c", ""])
def test_any_other_question_is_answered_by_a_number(question):
    assert answer_text(TaskKey("r", 0, 0), (Message("user", question),)).startswith("The answer is ")


def test_words_are_tokens_with_toy_log_probabilities_for_who_asks():
    with scripted() as (engine, recorder):
        none, two = run_all(engine, recorder, [task(0), task(1, top_logprobs=2)])
    assert none.positions == ()
    assert "".join(position.drawn.text for position in two.positions) == two.text
    assert {position.drawn.logprob for position in two.positions} == {two.mean_logprob}
    assert {position.top[0] == position.drawn for position in two.positions} == {True}
    assert {len(position.top) for position in two.positions} == {2}


def test_a_share_of_samples_fails_always_the_same_ones():
    tasks = [task(i) for i in range(300)]
    outcomes = []
    for _ in range(2):
        with scripted('{"fail_rate": 0.2, "seed": 3}', rows=50) as (engine, recorder):
            outcomes.append([one.error and one.error.code for one in run_all(engine, recorder, tasks)])
    assert outcomes[0] == outcomes[1]
    assert 30 < outcomes[0].count("scripted_failure") < 90


def test_cancel_capacity_duplicates_and_close():
    with scripted(LONG, rows=2) as (engine, recorder):
        for i in range(3):
            assert engine.submit(task(i))
        assert not engine.submit(task(0))
        assert engine.capacity() == 0
        engine.cancel(TaskKey("0", 0, 0))
        engine.cancel(TaskKey("2", 0, 0))
        engine.cancel(TaskKey("nobody", 0, 0))
        found = recorder.wait_done(2)
        assert {one.finish_reason for one in found.values()} == {FinishReason.CANCELLED}
        assert set(found) == {TaskKey("0", 0, 0), TaskKey("2", 0, 0)}
        assert engine.capacity() == 1
        engine.close()
        assert not engine.submit(task("after"))
    assert len(recorder.completions) == 3


def test_a_deadline_ends_a_sample():
    with scripted(LONG) as (engine, recorder):
        (late,) = run_all(engine, recorder, [task(1, deadline=time.time() + 0.01)])
    assert late.finish_reason is FinishReason.TIMEOUT


def test_a_budget_cuts_the_words():
    with scripted() as (engine, recorder):
        (cut,) = run_all(engine, recorder, [task(1, max_new_tokens=2)])
    assert (cut.text, cut.finish_reason, cut.completion_tokens) == ("The answer ", FinishReason.LENGTH, 2)


@pytest.mark.parametrize("script", ["{", '{"rows": 0}', '{"speed": 3}', '{"fail_rate": 2}'])
def test_wrong_options_are_named_before_the_start(script):
    with pytest.raises(ConfigError, match="TALLYSTREAM_ENGINE__SCRIPT"):
        create_engine(load_settings(engine={"name": "scripted", "script": script}))


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelLoadError, match=r"torch is not installed.*tallystream\[worker\]"):
        create_engine(load_settings())


def test_a_question_can_ask_for_the_answers_of_the_turns_before_it():
    first = Message("user", "earlier=answers")
    assert answer_text(TaskKey("r", 0, 0), (first,)) == "The answer is 0"
    turns = (first, Message("assistant", "7"), first, Message("assistant", "8"), first)
    assert answer_text(TaskKey("r", 0, 1), turns) == "The answer is 78"
