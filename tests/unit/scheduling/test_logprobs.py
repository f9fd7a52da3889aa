"""The compact form of log-probabilities in a sample's record: all of them, bounded, and nothing when not asked for."""

from __future__ import annotations

import io
import math
import random

import msgspec
import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.base import Completion, Position, TokenLogprob
from pipeline.events import FinishReason, Logprobs, Sample, Token
from pipeline.fitting import fitted_sample
from pipeline.kafka.codec import Codec
from pipeline.kafka.schemas import SCHEMAS, make_schema
from pipeline.scheduling.convert import LONGEST_TEXT, sample_of
from pipeline.scheduling.logprobs import packed
from pipeline.topics import LARGEST_SAMPLE
from tests.unit import window_events

CODEC = Codec()
singles = st.floats(-9000, 0, width=32)
entries = st.builds(
    TokenLogprob, st.none() | st.integers(0, 4), singles, st.sampled_from(["a", " b", "\ufffd"])
)
positions = st.lists(
    st.builds(Position, entries, st.lists(entries, max_size=3).map(tuple)), min_size=1, max_size=9
)


def unpacked(logprobs: Logprobs) -> list[Position]:
    """As a reader of the topic would do it, from the reference alone."""
    width = 1 + logprobs.top
    found: list[Position] = []
    for start in range(0, len(logprobs.places), width):
        drawn, *top = [
            TokenLogprob(logprobs.tokens[place].id, value, logprobs.tokens[place].text)
            for place, value in zip(
                logprobs.places[start : start + width], logprobs.values[start : start + width], strict=True
            )
            if place >= 0
        ]
        found.append(Position(drawn, tuple(top)))
    return found


def sample(text: str, said: list[Position], top: int) -> Sample:
    task = window_events.assigned(top)
    completion = Completion(
        key=task.key,
        text=text,
        finish_reason=FinishReason.STOP,
        prompt_tokens=1,
        completion_tokens=len(said),
        mean_logprob=None,
        seed=1,
        started_at=0.0,
        first_token_at=None,
        finished_at=1.0,
        positions=tuple(said),
    )
    return sample_of(task, completion, worker="w")


@given(positions, st.integers(0, 3))
def test_a_reader_gets_what_the_engine_gave_by_way_of_the_record(said: list[Position], top: int) -> None:
    whole = sample("a b", said, top)
    read = CODEC.decode(CODEC.encode(whole))
    assert read == whole and isinstance(read, Sample) and read.logprobs is not None
    assert unpacked(read.logprobs) == [Position(one.drawn, one.top[:top]) for one in said]
    assert len(set(read.logprobs.tokens)) == len(read.logprobs.tokens)


@pytest.mark.parametrize(
    ("value", "kept"), [(-math.inf, -9999.0), (-1e300, -9999.0), (1e-7, 0.0), (1e300, 0.0), (-0.5, -0.5)]
)
def test_a_value_is_one_that_a_single_float_and_json_can_hold(value: float, kept: float) -> None:
    found = packed([Position(TokenLogprob(7, value, "x"))], 0, whole=True)
    assert found == Logprobs(0, (Token("x", 7),), (0,), (kept,))


def test_a_sample_without_them_is_two_bytes_larger_than_in_its_first_version() -> None:
    plain = sample("a b", [], 0)
    assert plain.logprobs is None
    before = io.BytesIO()
    first = make_schema((SCHEMAS / "history" / "Sample.v1.avsc").read_text("utf-8"))
    schemaless_writer(before, first.parsed, msgspec.to_builtins(plain))
    body = CODEC.encode(plain)[10:]
    assert body == before.getvalue() + b"\0\0"  # no log-probabilities, not from the cache


def many(count: int, top: int) -> list[Position]:
    """As a model with a large vocabulary may give them, hardly one token twice."""
    random.seed(5)

    def entry() -> TokenLogprob:
        token = random.randrange(50_000)
        return TokenLogprob(token, -random.random() * 20, f" w{token}")

    return [Position(entry(), tuple(entry() for _ in range(top))) for _ in range(count)]


@pytest.mark.parametrize(("count", "top", "kept"), [(1024, 20, True), (4096, 5, True), (4096, 20, False)])
def test_they_are_dropped_where_the_record_would_be_too_large_and_the_sample_is_not(
    count: int, top: int, kept: bool
) -> None:
    whole = sample("a b " * count, many(count, top), top)
    value = fitted_sample(whole, CODEC.encode, LARGEST_SAMPLE)
    assert len(value) <= LARGEST_SAMPLE
    read = CODEC.decode(value)
    assert isinstance(read, Sample) and read.text == whole.text
    assert read.logprobs is not None and read.logprobs.top == top
    assert read.logprobs.dropped is not kept
    assert len(read.logprobs.places) == (count * (1 + top) if kept else 0)


def test_a_text_that_is_cut_has_none_and_says_so() -> None:
    cut = sample("x" * (LONGEST_TEXT + 1), many(3, 2), 2)
    assert cut.finish_reason is FinishReason.LENGTH
    assert cut.logprobs == Logprobs(2, dropped=True)
