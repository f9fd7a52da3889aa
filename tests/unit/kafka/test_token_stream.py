"""Tokens on their way to ``progress``: at most 20 records a second for a sample, its first at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.base import TaskKey
from pipeline.kafka.progress import ProgressWriter, TokenStream

KEY, OTHER = TaskKey("r", 0, 0), TaskKey("r", 0, 1)


class Written:
    """Stands where the producer is."""

    def __init__(self) -> None:
        self.records: list[tuple[TaskKey, str, int]] = []

    def tokens(self, request_id: str, run: int, sample_index: int, text: str, at: int) -> None:
        self.records.append((TaskKey(request_id, run, sample_index), text, at))

    def of(self, key: TaskKey) -> list[tuple[str, int]]:
        return [(text, at) for name, text, at in self.records if name == key]


def token_stream() -> tuple[TokenStream, Written]:
    written = Written()
    return TokenStream(cast(Any, written)), written


def test_a_first_token_is_written_at_once_and_the_next_ones_together():
    stream, written = token_stream()
    stream.add(KEY, "a")
    stream.flush(1_000)
    for at, text in enumerate("bcd", start=1_001):
        stream.add(KEY, text)
        stream.flush(at)
    stream.add(OTHER, "x")
    stream.flush(1_010)
    assert written.records == [(KEY, "a", 1_000), (OTHER, "x", 1_010)]
    stream.flush(1_050)
    assert written.of(KEY) == [("a", 1_000), ("bcd", 1_050)]
    stream.flush(1_200)
    assert len(written.records) == 3


@given(st.lists(st.tuples(st.integers(0, 30), st.text(max_size=3)), max_size=120))
def test_nothing_is_lost_or_turned_round_and_no_second_has_more_than_twenty(steps):
    stream, written = token_stream()
    now, said = 10_000, ""
    for wait, text in steps:
        now += wait
        said += text
        stream.add(KEY, text)
        stream.flush(now)
    stream.flush(now + 50)
    records = written.of(KEY)
    assert "".join(text for text, _ in records) == said
    times = [at for _, at in records]
    assert all(later - earlier >= 50 for earlier, later in pairwise(times))


def test_a_published_sample_is_forgotten_and_its_key_begins_anew():
    stream, written = token_stream()
    stream.add(KEY, "a")
    stream.flush(1_000)
    stream.add(KEY, "b")
    stream.end(KEY)
    stream.flush(2_000)
    stream.add(KEY, "c")
    stream.flush(2_001)
    assert written.of(KEY) == [("a", 1_000), ("c", 2_001)]


def test_the_stand_in_has_the_writers_own_signature():
    assert Written.tokens.__annotations__ == ProgressWriter.tokens.__annotations__


def test_a_sample_that_is_drawn_again_adds_nothing_to_what_was_shown():
    stream, written = token_stream()
    for key in (KEY, OTHER):
        stream.add(key, "one ")
    stream.flush(1_000)
    stream.add(KEY, "two")
    stream.again(KEY)
    for key in (KEY, OTHER):
        stream.add(key, "three")
    stream.flush(2_000)
    assert written.of(KEY) == [("one ", 1_000)]
    assert written.of(OTHER) == [("one ", 1_000), ("three", 2_000)]
    stream.end(KEY)
    stream.add(KEY, "four")
    stream.flush(3_000)
    assert written.of(KEY)[1:] == [("four", 3_000)]


def test_a_sample_that_has_shown_nothing_yet_is_shown_when_it_is_drawn_again():
    stream, written = token_stream()
    stream.again(KEY)
    stream.add(KEY, "one")
    stream.flush(1_000)
    assert written.of(KEY) == [("one", 1_000)]
