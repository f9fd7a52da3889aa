"""Which letters a selection takes, and how one is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.dead_letters import Cause
from pipeline.replay.letters import Letter, Selection, place_named

CAUSE = Cause("decode_error", "no", "batcher", 1, "requests", 3, 9, 1_000, 1_000)
LETTER = Letter((0, 17), 2_000, CAUSE, b"k", 5)


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection("decode_error", "batcher", "requests", "k", 2_000, 2_001, frozenset({(0, 17)})), True),
        (Selection(places=frozenset({(0, 16), (1, 17)})), False),
        (Selection(code="wrong_partition", places=frozenset({(0, 17)})), False),
        (Selection(since=2_001), False),
        (Selection(until=2_000), False),
    ],
)
def test_what_a_selection_takes(selection: Selection, taken: bool) -> None:
    assert selection.takes(LETTER) is taken


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**18 - 1))
def test_a_letter_is_found_by_its_name(partition: int, offset: int) -> None:
    assert place_named(replace(LETTER, place=(partition, offset)).id) == (partition, offset)


@pytest.mark.parametrize("text", ["", "0", "0:", ":1", "0:1:2", "-1:2", "0:1 ", "٣:1", "0:1" + 20 * "0"])
def test_what_names_no_letter(text: str) -> None:
    assert place_named(text) is None
