"""Prompt lookup: fewer forwards, and not one token, log-probability or end that differs."""

from __future__ import annotations

import math

import pytest
from engine_support import altered, failing_late, reference, run_all, running, saying, task
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.base import TaskKey
from pipeline.engine.cache import DecodeView, SlotCache
from pipeline.engine.prompt_lookup import Drafter, NgramIndex
from pipeline.engine.row import Row
from pipeline.errors import ConfigError
from pipeline.events import FinishReason
from pipeline.settings import load_settings

LOOKUP = {"lookup_ngram": 1, "lookup_tokens": 40}
"""One token is enough for a guess, so that a random model's text, which repeats letters, is tried often."""

TOKEN_BYTES = 2 * 2 * 2 * 8 * 4
"""Keys and values of two layers, two heads of eight floats."""


class Steps:
    """A hook that notes how many tokens of a row each step takes, and how many chunks of prompts are read."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.chunks = 0

    def __call__(self, ids, _positions, logits):
        if ids.shape[1] == logits.shape[1]:
            self.seen.append(ids.shape[1])
        else:
            self.chunks += 1
        return logits

    @property
    def tried(self) -> int:
        """Steps with drafts, without the one of the engine's own check."""
        return sum(size > 1 for size in self.seen) - 1


def told(completions):
    """All that a sample is but its times and log-probabilities."""
    return [
        (
            one.text,
            one.finish_reason,
            one.seed,
            [position.drawn.token for position in one.positions],
            [[top.token for top in position.top] for position in one.positions],
            one.completion_tokens,
        )
        for one in completions
    ]


def logprobs(completions):
    return [position.drawn.logprob for one in completions for position in one.positions]


def mix():
    for number in range(14):
        yield task(
            f"m{number}",
            "abcab" * (number % 5 + 1) + str(number),
            seed=number,
            temperature=(0, 0.3, 0.7, 1.1)[number % 4],
            top_p=(1.0, 0.9)[number % 2],
            repetition_penalty=(1.0, 1.2, 0.7)[number % 3],
            stop=("e",) if number % 5 == 4 else (),
            max_new_tokens=1 + (17 * number) % 41,
            top_logprobs=2,
        )


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_nothing_that_is_drawn_changes(tiny, rows):
    plainly, steps = Steps(), Steps()
    with running(altered(tiny, plainly), rows=rows) as (engine, recorder):
        plain = run_all(engine, recorder, mix())
    with running(altered(tiny, steps), rows=rows, **LOOKUP) as (engine, recorder):
        tried = run_all(engine, recorder, mix())
        for one in tried:
            assert recorder.streamed(one.key) == one.text
    assert told(tried) == told(plain)
    assert logprobs(tried) == pytest.approx(logprobs(plain), abs=1e-4)
    assert steps.tried > 5 and len(steps.seen) < len(plainly.seen) + (rows > 1)


def test_a_greedy_row_is_that_of_generate_beside_rows_that_have_nothing_to_try(tiny):
    probe = task("probe", "abc" * 20, temperature=0, max_new_tokens=60, top_logprobs=0)
    wanted = reference(tiny, "abc" * 20, 60)
    others = [
        task(
            f"o{i}", "".join(map(chr, range(33 + i, 80, i + 1))), seed=i, temperature=2, max_new_tokens=9 * i
        )
        for i in range(1, 4)
    ]
    for company in ([], others[:1], others):
        steps = Steps()
        with running(altered(tiny, steps), lookup_ngram=2, lookup_tokens=16) as (engine, recorder):
            found = run_all(engine, recorder, [*company, probe])[-1]
        assert [position.drawn.token for position in found.positions] == wanted
        assert steps.tried > 0


def test_a_text_that_repeats_takes_a_fraction_of_the_steps(tiny):
    text = "the cat sat on the mat. " * 8
    steps = Steps()
    with running(altered(saying(tiny, "say it", text), steps), lookup_tokens=8) as (engine, recorder):
        (one,) = run_all(engine, recorder, [task(1, "say it", temperature=0, max_new_tokens=300)])
    assert (one.text, one.finish_reason) == (text, FinishReason.STOP)
    assert len(steps.seen) < len(text) / 3


@pytest.mark.parametrize(
    ("params", "reason", "tokens"),
    [
        ({"max_new_tokens": 27}, FinishReason.LENGTH, 27),
        ({"max_new_tokens": 200, "stop": ("eabX", "abcde" * 6 + "abc")}, FinishReason.STOP, 34),
        ({"max_new_tokens": 200}, FinishReason.STOP, 62),
    ],
    ids=["length", "stop text", "end token"],
)
def test_an_end_inside_a_draft_ends_there(tiny, params, reason, tokens):
    """What the draft says behind it is forgotten, and a row that moves keeps all that it has drawn."""
    said = "-" + "abcde" * 12
    farthest: list[int] = []

    def hook(ids, positions, logits):
        if len(ids) == 2:
            farthest.append(int(positions[0, -1]))
        return logits

    one = task("one", "say it", temperature=0, top_logprobs=0, **params)
    other = task("other", "say it", temperature=0, max_new_tokens=200)
    with running(altered(saying(tiny, "say it", said), hook), rows=2, **LOOKUP) as (engine, recorder):
        first, last = run_all(engine, recorder, [one, other])
    assert (first.finish_reason, first.completion_tokens) == (reason, tokens)
    assert len(first.positions) == (1 if "stop" in params else tokens)
    assert first.text == recorder.streamed(one.key) == ("-" if "stop" in params else said[:tokens])
    assert (last.text, last.finish_reason) == (said, FinishReason.STOP)
    assert max(farthest) >= first.prompt_tokens + tokens - 1, "no draft went on behind the end"


@pytest.mark.parametrize("way", [FinishReason.CANCELLED, FinishReason.TIMEOUT])
def test_a_row_that_is_cancelled_or_late_ends_within_a_step(tiny, way):
    said = "abcde" * 40
    steps, now, after = Steps(), [1000.0], []

    def hook(ids, positions, logits):
        if steps.tried > 3:
            after.append(len(ids))
            if way is FinishReason.CANCELLED:
                engine.cancel(TaskKey("ends", 0, 0))
            else:
                now[0] = 2000.0
        return steps(ids, positions, logits)

    with running(altered(saying(tiny, "say it", said), hook), clock=lambda: now[0], **LOOKUP) as (
        engine,
        recorder,
    ):
        options = {"temperature": 0, "max_new_tokens": 300}
        ends, other = run_all(
            engine,
            recorder,
            [
                task("ends", "say it", deadline=1500.0, **options),
                task("stays", "say it", deadline=9000.0, **options),
            ],
        )
    assert ends.finish_reason is way
    assert 0 < len(ends.text) < len(said) and said.startswith(ends.text)
    assert after[0] == 2 and set(after[1:]) == {1}
    assert other.text == said


def test_numbers_that_are_not_finite_for_a_draft_alone_harm_nobody(tiny, monkeypatch):
    """Keys of NaN where a draft was tried: the row goes on as if it had not been, and so does who comes after."""
    with running(tiny) as (engine, recorder):
        plain = run_all(engine, recorder, mix())
    update, poisoned = DecodeView.update, []

    def poison(view, keys, values, *rest, **options):
        if keys.shape[2] > 1:
            poisoned.append(keys.shape)
            keys = keys.clone()
            keys[:, :, 1:] = math.nan
        return update(view, keys, values, *rest, **options)

    with running(tiny, **LOOKUP) as (engine, recorder):
        monkeypatch.setattr(DecodeView, "update", poison)
        tried = run_all(engine, recorder, mix())
    assert told(tried) == told(plain)
    assert poisoned


def test_a_row_that_is_not_finite_by_itself_fails_alone_among_drafts(tiny):
    with running(failing_late(tiny), **LOOKUP) as (engine, recorder):
        bad, *others = run_all(engine, recorder, [task(99, "n" * 105, max_new_tokens=200), *mix()])
    assert bad.error.code == "non_finite_logits" and bad.completion_tokens > 0
    assert [one.error for one in others] == [None] * len(others)


@pytest.mark.parametrize(
    "error", [RuntimeError("not enough memory: you tried to allocate it all"), ZeroDivisionError("surprise")]
)
def test_a_forward_that_fails_for_drafts_is_done_without_them(tiny, error):
    with running(tiny) as (engine, recorder):
        plain = run_all(engine, recorder, mix())
    refused, rows = [], []

    def refuse(ids, _positions, logits):
        if logits.shape[1] > 1 and ids.shape[0] > 1:
            refused.append(ids.shape[0])
            raise error
        rows.append(ids.shape[0])
        return logits

    with running(altered(tiny, refuse), **LOOKUP) as (engine, recorder):
        tried = run_all(engine, recorder, mix())
    assert told(tried) == told(plain)
    assert refused and max(rows) == 4


def test_the_context_and_the_cache_s_bound_hold_and_no_row_leaves_for_a_draft(tiny, monkeypatch):
    prompt = "ab" * 13
    loaded = saying(tiny, prompt, "a" * 200)
    tasks = [task(i, prompt, seed=i, max_new_tokens=500, top_logprobs=0) for i in range(4)]
    options = {"context": 128, "cache_tokens": 256, "prefix_bytes": 0}
    plainly, steps = Steps(), Steps()
    last: list[int] = []
    largest: list[int] = []
    reserve = SlotCache.reserve

    def watched(cache, rows, length):
        reserve(cache, rows, length)
        largest.append(cache.bytes)

    monkeypatch.setattr(SlotCache, "reserve", watched)
    with running(altered(loaded, plainly), **options) as (engine, recorder):
        plain = run_all(engine, recorder, tasks)

    def hook(ids, positions, logits):
        last.append(int(positions.max()))
        return steps(ids, positions, logits)

    with running(altered(loaded, hook), **options, **LOOKUP) as (engine, recorder):
        tried = run_all(engine, recorder, tasks)
    assert told(tried) == told(plain)
    assert max(last) < 128 and max(largest) <= 256 * TOKEN_BYTES
    assert steps.tried > 3 and steps.chunks <= plainly.chunks


def test_deterministic_mode_refuses_it_and_names_both_fields():
    with pytest.raises(ConfigError, match=r"ENGINE__LOOKUP_TOKENS.*ENGINE__DETERMINISTIC"):
        load_settings(engine={"deterministic": True, "lookup_tokens": 8})
    assert load_settings(engine={"deterministic": True}).engine.lookup_tokens == 0


def row_of(tiny, text: str, budget: int = 100) -> Row:
    """A row that has drawn the last letter of a text."""
    *prompt, last = text.encode()
    row = Row(task(text), 0)
    row.prepare(row.task.params, 0, tuple(prompt), budget, tiny.tokenizer)
    row.generated.append(last)
    return row


def draws(row: Row, text: str) -> None:
    row.generated.extend(text.encode())


def test_a_draft_grows_with_what_comes_true_and_ends_with_the_budget(tiny):
    drafter, row = Drafter(1, 8, 1000), row_of(tiny, "abcdefgha", budget=21)
    lengths = []
    for drawn in ("b", "cd", "efg", "habcd", "efghabcde", ""):
        lengths.append(len(drafter.drafts([row])[0]))
        draws(row, drawn)
    # The first is careful; one token was drawn that was not foreseen; then 1, 2, 4 and 8 came true.
    assert lengths == [1, 1, 2, 4, 8, 0]
    assert row.room == 0


@pytest.mark.parametrize(
    ("texts", "context", "wanted"),
    [
        (["aba", "xyz"], 100, [b"b", b"z"]),
        (["aba", "xyz", "uvw"], 100, [b"", b"", b""]),
        (["aba"] * 4, 100, [b"b"] * 4),
        (["aba"] * 5, 100, [b""] * 5),
        (["aba"], 4, [b"b"]),
        (["aba"], 3, [b""]),
    ],
    ids=["half have one", "a third has one", "four rows", "too many rows", "one place left", "no place left"],
)
def test_a_step_tries_what_half_of_the_rows_have_within_its_tokens_and_the_context(
    tiny, texts, context, wanted
):
    rows = [row_of(tiny, text) for text in texts]
    assert [bytes(draft) for draft in Drafter(1, 4, context).drafts(rows)] == wanted


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 3), st.integers(0, 9))
def test_a_guess_is_what_followed_the_last_time(ids, size, most):
    index = NgramIndex(size)
    index.extend(ids[:7])
    index.extend(ids[7:])
    places = [end for end in range(size, len(ids)) if ids[end - size : end] == ids[-size:]]
    longer = list(ids)
    for offset in range(most if places else 0):
        longer.append(longer[places[-1] + offset])
    assert index.draft(most) == longer[len(ids) :]
