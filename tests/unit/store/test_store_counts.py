"""What waits, and how fast it ends."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from store_events import AT, SECOND

from pipeline.events import PRIORITIES
from pipeline.store.counts import Counts, Rate
from pipeline.store.rows import Stage

NOBODY = (None,) * PRIORITIES


def test_a_tenant_without_anything_that_waits_takes_no_memory() -> None:
    counts = Counts()
    for number in range(100):
        counts.add((1, Stage.WAITING, f"t{number}"), 1)
        counts.add((1, Stage.WAITING, f"t{number}"), -1)
    assert (counts.of("t5"), counts.lanes(NOBODY)[1].waiting, len(counts._tenants)) == (0, 0, 0)


@given(st.lists(st.integers(0, 300 * SECOND), max_size=60), st.integers(0, 1000))
def test_the_rate_is_that_of_the_last_minute_in_whatever_order_ends_are_read(
    ends: list[int], seed: int
) -> None:
    rate, shuffled = Rate(), list(ends)
    random.Random(seed).shuffle(shuffled)
    for end in shuffled:
        rate.ended(AT + end)
    now = max(ends, default=0)
    last = [end for end in ends if end // SECOND > now // SECOND - 60]
    assert rate.per_second(AT + now) == len(last) / 60
    assert rate.per_second(AT + now + 61 * SECOND) == 0
    assert len(rate._ends) <= 61
