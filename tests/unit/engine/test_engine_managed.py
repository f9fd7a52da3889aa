"""The engine ``transformers``: what its manager does not survive never reaches it, and its death costs nothing."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_support import PATIENCE, Recorder, engine_settings, load_tiny, reference, run_all, task

from pipeline.engine.managed import ManagedEngine
from pipeline.engine.model import LoadedModel
from pipeline.events import FinishReason
from tests.tiny_model import build_tiny_model

POISON = "\x07"


class Deadly:
    """Makes a model's forward raise whenever a token of ``POISON`` is read."""

    def __init__(self, loaded: LoadedModel) -> None:
        [self._token] = loaded.tokenizer(POISON, add_special_tokens=False)["input_ids"]
        self.deaths = 0
        loaded.model.register_forward_pre_hook(self._look, with_kwargs=True)

    def _look(self, model: Any, args: Any, inputs: dict[str, Any]) -> None:
        if bool((inputs["input_ids"] == self._token).any()):
            self.deaths += 1
            raise RuntimeError("poisoned")


class Gate:
    """Lets a model take so many more steps, so that nothing ends before a test has looked at it."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._changed = threading.Condition()
        self._steps: int | None = None
        loaded.model.register_forward_pre_hook(self._pass)

    def let(self, steps: int | None) -> None:
        """``None`` is without end."""
        with self._changed:
            self._steps = steps
            self._changed.notify_all()

    def _pass(self, model: Any, args: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._steps != 0, PATIENCE)
            if self._steps is not None:
                self._steps -= 1


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """A model of this file's own, because the manager changes its attention."""
    torch.set_num_threads(1)
    return load_tiny(build_tiny_model(Path(tmp_path_factory.mktemp("managed")) / "tiny", context=512))


@pytest.fixture(scope="module")
def deadly(own: LoadedModel) -> Deadly:
    return Deadly(own)


@pytest.fixture(scope="module")
def gate(own: LoadedModel) -> Gate:
    return Gate(own)


@pytest.fixture(scope="module")
def expected(own: LoadedModel) -> list[str]:
    """What greedy ``generate`` says, less a last half character; asked before the manager changes the model."""
    return [
        own.tokenizer.decode(reference(own, prompt, 12), skip_special_tokens=True).rstrip("\ufffd")
        for prompt in ("hello", "a longer prompt", "z")
    ]


@contextmanager
def managed(loaded: LoadedModel, clock=time.time, **engine: Any):
    recorder = Recorder()
    engine = ManagedEngine(engine_settings(context=512, **engine), load=lambda _: loaded, clock=clock)
    engine.start(recorder)
    try:
        yield engine, recorder
    finally:
        engine.close()


def test_greedy_is_that_of_generate_and_bad_tasks_harm_no_neighbour(own, expected, deadly):
    good = [
        task(f"good {prompt}", prompt, temperature=0, max_new_tokens=12, seed=3)
        for prompt in ("hello", "a longer prompt", "z")
    ]
    bad = [
        (task("cold", temperature=-1.0), "invalid_sampling"),
        (task("seed", temperature=0.5, seed=1), "unsupported_sampling"),
        (task("penalty", repetition_penalty=1.2), "unsupported_sampling"),
        (task("min_p", min_p=0.2), "unsupported_sampling"),
        (task("likeliest", top_logprobs=1), "unsupported_sampling"),
        (task("long", "x" * 600), "prompt_too_long"),
        (task("empty", " "), "empty_prompt"),
    ]
    odd = [
        task("int", temperature=1, max_new_tokens=5),
        task("tiny", temperature=1e-9, max_new_tokens=5),
        task("wide", top_k=10_000, top_p=1, max_new_tokens=5),
        task("stop", stop="a", max_new_tokens=5),
        task("room", "y" * 450, max_new_tokens=4000, temperature=0),
        task("deadly", POISON, max_new_tokens=5),
    ]
    with managed(own) as (engine, recorder):
        done = run_all(engine, recorder, [*good, *(each for each, _ in bad), *odd])
    texts = [one.text for one in done[:3]]
    assert texts == expected and all(recorder.streamed(one.key) == one.text for one in done)
    assert [one.error and one.error.code for one in done[3:10]] == [code for _, code in bad]
    assert {one.finish_reason for one in done[10:15]} <= {FinishReason.STOP, FinishReason.LENGTH}
    assert done[15].error is not None and done[15].error.code == "engine_error"
    assert deadly.deaths >= 1 and len(recorder.completions) == len(done)
    assert all(one.mean_logprob is None for one in done)


def test_cancel_deadline_and_close_end_a_sample_that_the_manager_would_go_on_with(own, gate):
    now = [1000.0]
    endless = replace(own, eos_ids=frozenset[int]())
    gate.let(40)
    with managed(endless, clock=lambda: now[0]) as (engine, recorder):
        cancelled = task("cancelled", max_new_tokens=400, deadline=9000.0)
        late = task("late", "later", max_new_tokens=400, deadline=2000.0)
        waiting = [task(f"w{i}", max_new_tokens=400, deadline=9000.0) for i in range(4)]
        for each in (cancelled, late, *waiting):
            assert engine.submit(each) and not engine.submit(each)
        assert engine.capacity() == 0
        recorder.wait_tokens(cancelled.key)
        recorder.wait_tokens(late.key)
        engine.cancel(cancelled.key)
        assert recorder.wait_done(1)[cancelled.key].finish_reason is FinishReason.CANCELLED
        now[0] = 2000.0
        assert recorder.wait_done(2)[late.key].finish_reason is FinishReason.TIMEOUT
        gate.let(40)
        recorder.wait_tokens(waiting[3].key)  # the places are free again
        gate.let(None)
    assert [one.finish_reason for one in recorder.completions[2:]] == [FinishReason.CANCELLED] * 4
    assert all(recorder.streamed(one.key) == one.text for one in recorder.completions)


def test_after_a_death_every_sample_goes_on_from_its_last_token(own, deadly, gate):
    gate.let(None)
    before = deadly.deaths
    victims = [task(f"v{i}", f"prompt {i}", temperature=0, max_new_tokens=60) for i in range(3)]
    with managed(own) as (engine, recorder):
        calm = [one.text for one in run_all(engine, recorder, victims)]
    gate.let(15)
    with managed(own) as (engine, recorder):
        for each in victims:
            assert engine.submit(each)
        for each in victims:
            recorder.wait_tokens(each.key)
        assert engine.submit(task("deadly", POISON))
        gate.let(None)
        found = recorder.wait_done(4)
    assert deadly.deaths > before
    assert [found[each.key].text for each in victims] == calm
    assert all(recorder.streamed(each.key) == found[each.key].text for each in victims)


def test_after_close_nothing_is_taken(own):
    with managed(own) as (engine, _):
        pass
    assert not engine.submit(task("late"))
    engine.close()
