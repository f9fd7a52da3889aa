"""Events from bytes, and how long a repetition waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.http_events import EventReader
from pipeline.engine.http_retry import delay_before
from pipeline.errors import ModelServerDownError
from pipeline.settings import HttpEngineSettings

TEXTS = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), max_size=5
)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.sampled_from([b"\n", b"\r\n"]), st.data())
def test_events_do_not_depend_on_where_the_bytes_are_cut(texts, ending, data):
    sent = b": hello" + ending * 2
    for text in texts:
        sent += b"event: x" + ending + b"data: " + text.encode() + ending * 2
    reader, found = EventReader(), []
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        found += reader.feed(sent[:size])
        sent = sent[size:]
    assert found == texts


def test_the_lines_of_one_event_are_joined():
    assert EventReader().feed(b"data: a\ndata:b\ndata\n\n") == ["a\nb\n"]


def test_an_endless_event_is_given_up():
    reader = EventReader()
    with pytest.raises(ModelServerDownError):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100_000)


@pytest.mark.parametrize(("failed", "wait"), [(0, 0.5), (1, 1), (4, 8), (5, 15), (10_000, 15)])
def test_waits_double_up_to_a_bound_and_half_of_them_is_chance(failed, wait):
    options = HttpEngineSettings()
    assert delay_before(failed, options, 0.0) == wait / 2
    assert wait * 0.99 < delay_before(failed, options, 0.999) < wait
    assert delay_before(failed, options, 0.5, retry_after=60.0) == 60.0
    assert delay_before(failed, options, 0.0, retry_after=0.0) == wait / 2
