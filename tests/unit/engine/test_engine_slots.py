"""The slot engine on a tiny model: right tokens in any company, and every task ends once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import torch
from engine_support import Recorder, altered, reference, run_all, running, saying, task

from pipeline.engine.base import TaskKey
from pipeline.events import FinishReason

PROMPTS = ["a", "What is 7 + 5?", "x" * 70, "hello " * 30, "ö€😀", "q" * 44]


def text_of(loaded, ids: list[int]) -> str:
    ids = [token for token in ids if token not in loaded.eos_ids]
    return loaded.tokenizer.decode(ids, skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}")


@pytest.fixture(scope="module")
def expected(tiny):
    return {prompt: reference(tiny, prompt, 24) for prompt in PROMPTS}


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_greedy_equals_generate_in_any_mix(tiny, expected, rows, deterministic):
    # Budgets differ so that rows leave at different steps and others move into their slots.
    tasks = [
        task(prompt, prompt, index=index, temperature=0, max_new_tokens=2 + (7 * number + 11 * index) % 23)
        for number, prompt in enumerate(PROMPTS)
        for index in (0, 1)
    ]
    with running(tiny, rows=rows, deterministic=deterministic) as (engine, recorder):
        for each, completion in zip(tasks, run_all(engine, recorder, tasks), strict=True):
            wanted = expected[completion.key.request_id][: each.params.max_new_tokens]
            assert completion.text == text_of(tiny, wanted)
            assert completion.completion_tokens == len(wanted)
            assert recorder.streamed(completion.key) == completion.text


def test_greedy_alone_equals_generate(tiny, expected):
    for prompt in PROMPTS:
        with running(tiny) as (engine, recorder):
            (completion,) = run_all(engine, recorder, [task(1, prompt, temperature=0.0, max_new_tokens=24)])
            assert completion.text == text_of(tiny, expected[prompt])


def test_temperature_zero_five_times_is_five_equal_texts(tiny):
    tasks = [task("same", "tell me", index=i, temperature=0, max_new_tokens=30) for i in range(5)]
    with running(tiny) as (engine, recorder):
        assert len({completion.text for completion in run_all(engine, recorder, tasks)}) == 1


@pytest.mark.parametrize("deterministic", [False, True])
def test_same_seed_same_text_whatever_else_runs(tiny, deterministic):
    def probe(index: int):
        return task("probe", "probe me", index=index, seed=11, temperature=0.9, top_p=0.9, max_new_tokens=30)

    outcomes: set[tuple[str, float | None]] = set()
    for company in [0, 1, 2, 3, 5, 8, 15, 3]:
        with running(tiny, rows=company + 1, deterministic=deterministic) as (engine, recorder):
            others = [
                task(f"o{i}", "y" * (9 * i + 1), seed=i, max_new_tokens=3 * i + 2) for i in range(company)
            ]
            completions = run_all(engine, recorder, [*others, probe(company)])
            outcomes.add((completions[-1].text, completions[-1].completion_tokens))
    assert len(outcomes) == 1


@pytest.mark.parametrize("join_after", [1, 4, 9])
def test_same_seed_same_text_whenever_it_joins(tiny, join_after):
    probe = task("probe", "probe me", seed=11, temperature=0.9, top_p=0.9, max_new_tokens=30)
    with running(tiny) as (engine, recorder):
        (alone,) = run_all(engine, recorder, [probe])
    long = "longer than the probe ever gets " * 4
    with running(saying(tiny, long, "word " * 40)) as (engine, recorder):
        engine.submit(task("first", long, temperature=0, max_new_tokens=200))
        recorder.wait_tokens(TaskKey("first", 0, 0), join_after)
        engine.submit(probe)
        assert recorder.wait_done(2)[probe.key].text == alone.text


@pytest.mark.parametrize("deterministic", [False, True])
def test_same_seed_same_tokens_at_every_batch_size_and_moment(tiny, deterministic):
    """1 to 16 rows at once; the probe joins when the others have drawn none to three tokens."""

    def name(size: int, other: int = 0) -> TaskKey:
        return TaskKey(f"{size}/{other}", 0, 0)

    with running(tiny, rows=16, deterministic=deterministic, prefill_chunk=16) as (engine, recorder):
        for size in range(1, 17):
            for other in range(1, size):
                prompt = f"{other} " * (other % 5 + 1)
                engine.submit(task(f"{size}/{other}", prompt, temperature=0, max_new_tokens=5 + other % 3))
            if size > 1 and size % 4:
                recorder.wait_started(name(size, 1), tokens=size % 4)
            engine.submit(
                task(f"{size}/0", "probe me", seed=11, temperature=0.9, max_new_tokens=10, top_logprobs=0)
            )
        found = recorder.wait_done(sum(range(1, 17)))
    probes = [found[name(size)].positions for size in range(1, 17)]
    assert len({tuple(position.drawn.token for position in positions) for positions in probes}) == 1
    if deterministic:
        assert len(set(probes)) == 1


def test_constant_rows_give_equal_bits(tiny):
    def outcome(company: int) -> float | None:
        with running(tiny, rows=6, deterministic=True) as (engine, recorder):
            others = [task(f"o{i}", "y" * (90 * i + 1), seed=i, max_new_tokens=60) for i in range(company)]
            tasks = [*others, task("probe", "probe me", seed=5, temperature=1.0, max_new_tokens=50)]
            return run_all(engine, recorder, tasks)[-1].mean_logprob

    assert len({outcome(company) for company in range(6)}) == 1


def test_unseeded_samples_differ_and_report_seeds_that_repeat_them(tiny):
    with running(tiny) as (engine, recorder):
        tasks = [task("free", index=i, temperature=1.0, max_new_tokens=20) for i in range(6)]
        completions = run_all(engine, recorder, tasks)
    assert len({completion.text for completion in completions}) == 6
    assert len({completion.seed for completion in completions}) == 6
    again = [
        task("again", index=i, temperature=1.0, max_new_tokens=20, seed=completion.seed)
        for i, completion in enumerate(completions)
    ]
    with running(tiny) as (engine, recorder):
        repeated = run_all(engine, recorder, again)
    assert [one.text for one in repeated] == [one.text for one in completions]


def test_siblings_share_one_prefill(tiny):
    prefills: list[int] = []

    def count(ids, positions, logits):
        if ids.shape[1] > 1:
            prefills.append(ids.shape[1])
        return logits

    with running(altered(tiny, count), rows=8) as (engine, recorder):
        prefills.clear()
        run_all(
            engine,
            recorder,
            [task("n", index=i, seed=i, temperature=1.0, max_new_tokens=20) for i in range(8)],
        )
    assert len(prefills) == 1


def test_mean_logprob_is_taken_before_warping(tiny):
    with running(tiny) as (engine, recorder):
        tasks = [
            task("warm", temperature=0, max_new_tokens=8),
            task("cold", temperature=0.7, top_k=1, seed=1, max_new_tokens=8),
        ]
        greedy, only_one = run_all(engine, recorder, tasks)
    assert greedy.text == only_one.text
    assert only_one.mean_logprob == pytest.approx(greedy.mean_logprob, abs=1e-5)
    assert only_one.mean_logprob < -0.01


def test_log_probabilities_by_token_come_on_request(tiny):
    def drawn(**options):
        return task("t", temperature=0, max_new_tokens=6, **options)

    with running(tiny) as (engine, recorder):
        none, three = run_all(engine, recorder, [drawn(index=0), drawn(index=1, top_logprobs=3)])
    assert none.positions == ()
    assert len(three.positions) == three.completion_tokens
    for position in three.positions:
        values = [one.logprob for one in position.top]
        assert position.top[0] == position.drawn
        assert len(values) == 3 and values == sorted(values, reverse=True)
    total = sum(position.drawn.logprob for position in three.positions)
    assert total / three.completion_tokens == pytest.approx(three.mean_logprob)


def test_the_repetition_penalty_counts_the_prompt_and_what_is_drawn(tiny):
    """As ``generate`` does, which a greedy model would otherwise not leave its favourite for."""
    text = tiny.tokenizer.apply_chat_template(
        [{"role": "user", "content": "again"}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([tiny.tokenizer(text, add_special_tokens=False)["input_ids"]])
    wanted = tiny.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, repetition_penalty=1.8
    )[0, ids.shape[1] :].tolist()
    with running(tiny) as (engine, recorder):
        options = {"temperature": 0, "max_new_tokens": 20, "top_logprobs": 0}
        penalised, plain = run_all(
            engine,
            recorder,
            [task(1, "again", repetition_penalty=1.8, **options), task(2, "again", **options)],
        )
    assert [position.drawn.token for position in penalised.positions] == wanted
    assert penalised.positions != plain.positions


def test_each_row_has_its_own_end_and_count(tiny, expected):
    """F14: one row ends at its third token and the other goes on, without padding in any text."""
    short, long = expected["a"], expected["hello " * 30]
    end = next(token for token in short[2:] if token not in long and short.index(token) >= 2)
    at = short.index(end) + 1
    with running(replace(tiny, eos_ids=frozenset({end}))) as (engine, recorder):
        tasks = [
            task("short", "a", temperature=0, max_new_tokens=24),
            task("long", "hello " * 30, temperature=0, max_new_tokens=24),
        ]
        first, second = run_all(engine, recorder, tasks)
    assert (first.completion_tokens, first.finish_reason) == (at, FinishReason.STOP)
    assert first.text == text_of(tiny, short[: at - 1])
    assert (second.completion_tokens, second.finish_reason) == (len(long), FinishReason.LENGTH)
    assert second.text == text_of(tiny, long)


def test_waiting_tasks_start_in_order_and_capacity_counts_them(tiny):
    with running(tiny, rows=2) as (engine, recorder):
        assert engine.capacity() == 2
        tasks = [task(i, f"{i}", temperature=0, max_new_tokens=5) for i in range(7)]
        completions = run_all(engine, recorder, tasks)
        assert engine.capacity() == 2
    starts = [completion.started_at for completion in completions]
    assert starts == sorted(starts)
    assert all(one.started_at <= one.first_token_at <= one.finished_at for one in completions)


def test_a_full_engine_has_no_capacity(tiny):
    gate = Gate(tiny)
    with running(gate.loaded, rows=2) as (engine, recorder), gate:
        for i in range(3):
            engine.submit(task(i, max_new_tokens=3))
        assert engine.capacity() == 0
    assert len(recorder.completions) == 3


def test_cancel_ends_a_running_and_a_waiting_task_with_the_text_so_far(tiny):
    gate = Gate(saying(tiny, "talk", "word " * 30))
    with running(gate.loaded, rows=1) as (engine, recorder), gate:
        engine.submit(task("runs", "talk", temperature=0, max_new_tokens=200))
        engine.submit(task("waits", "talk", temperature=0, max_new_tokens=200))
        gate.let_pass(4)
        for name in ("runs", "waits", "nobody"):
            engine.cancel(TaskKey(name, 0, 0))
        steps_before = gate.steps
        gate.open()
        found = recorder.wait_done(2)
        assert gate.steps <= steps_before + 1
    running_one, waiting_one = found[TaskKey("runs", 0, 0)], found[TaskKey("waits", 0, 0)]
    assert running_one.finish_reason is waiting_one.finish_reason is FinishReason.CANCELLED
    assert "word word word".startswith(running_one.text) and running_one.text
    assert recorder.streamed(running_one.key) == running_one.text
    assert (waiting_one.text, waiting_one.completion_tokens) == ("", 0)


def test_a_deadline_ends_a_task_within_one_step(tiny):
    now = [1000.0]
    gate = Gate(saying(tiny, "talk", "word " * 30))
    with running(gate.loaded, clock=lambda: now[0]) as (engine, recorder), gate:
        engine.submit(task("late", "talk", temperature=0, max_new_tokens=200, deadline=1010.0))
        engine.submit(task("in time", "talk", temperature=0, max_new_tokens=200, deadline=2000.0))
        gate.let_pass(5)
        now[0] = 1011.0
        steps_before = gate.steps
        gate.open()
        found = recorder.wait_done(2)
    late = found[TaskKey("late", 0, 0)]
    assert late.finish_reason is FinishReason.TIMEOUT
    assert 0 < late.completion_tokens <= steps_before + 2
    assert found[TaskKey("in time", 0, 0)].text == "word " * 30


def test_a_task_that_is_late_before_it_starts_times_out_alone(tiny):
    with running(tiny) as (engine, recorder):
        late, good = run_all(
            engine, recorder, [task("late", deadline=time.time() - 1), task("good", max_new_tokens=3)]
        )
    assert (late.finish_reason, late.text) == (FinishReason.TIMEOUT, "")
    assert good.completion_tokens == 3


def test_a_key_that_is_live_is_refused_and_free_again_when_done(tiny):
    gate = Gate(tiny)
    with running(gate.loaded) as (engine, recorder), gate:
        assert engine.submit(task("once", max_new_tokens=3))
        assert not engine.submit(task("once", max_new_tokens=3))
        gate.open()
        recorder.wait_done(1)
        assert engine.submit(task("once", max_new_tokens=3))
        recorder.wait_done(2)


def test_close_ends_everything_exactly_once(tiny):
    gate = Gate(tiny)
    with running(gate.loaded, rows=2) as (engine, recorder), gate:
        keys = {task(i).key for i in range(6)}
        for i in range(6):
            engine.submit(task(i, max_new_tokens=500, seed=i))
        gate.let_pass(2)
        closing = threading.Thread(target=engine.close)
        closing.start()
        gate.open()
        closing.join()
        engine.close()
        assert not engine.submit(task("after"))
    assert len(recorder.completions) == 6
    assert {completion.key for completion in recorder.completions} == keys
    assert FinishReason.CANCELLED in {completion.finish_reason for completion in recorder.completions}


def test_a_listener_that_raises_does_not_stop_the_loop(tiny):
    class Rude(Recorder):
        def tokens(self, key, text):
            super().tokens(key, text)
            raise ValueError("tokens")

        def done(self, completion):
            super().done(completion)
            raise ValueError("done")

    with running(tiny, listener=Rude()) as (engine, recorder):
        completions = run_all(engine, recorder, [task(i, seed=i, max_new_tokens=5) for i in range(5)])
    assert {completion.completion_tokens for completion in completions} <= {1, 2, 3, 4, 5}


class Gate:
    """Holds each decode step of a model until the test lets it pass."""

    def __init__(self, loaded) -> None:
        self.steps = 0
        self._inner = loaded
        self._allowed = 0
        self._armed = False
        self._open = False
        self._changed = threading.Condition()
        self.loaded = altered(loaded, self._hold)

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.open()

    def _hold(self, ids, positions, logits):
        if ids.shape[1] > 1:
            return logits
        with self._changed:
            # The engine's own check takes the first step.
            if not self._armed:
                self._armed = True
                return logits
            self._changed.wait_for(lambda: self._open or self._allowed > 0, 60)
            self._allowed -= 1
            self.steps += 1
            self._changed.notify_all()
        return logits

    def let_pass(self, steps: int) -> None:
        with self._changed:
            wanted = self.steps + steps
            self._allowed = steps
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.steps >= wanted, 60)

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()
