"""What Faust's consumer commits when markers of transactions stand between the records."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from faust.types import TP
from intervaltree import IntervalTree

from pipeline.kafka.faust_app import Consumer

PLACE = TP("samples", 0)


def consumer(committed: int) -> Any:
    """The bookkeeping alone, without a broker."""
    made: Any = object.__new__(Consumer)
    made._acked, made._acked_index = defaultdict(list), defaultdict(set)
    made._gap, made._committed_offset = defaultdict(IntervalTree), {PLACE: committed}
    return made


async def hand_over(made: Any, *offsets: int) -> None:
    """What ``_drain_messages`` notes as records come, from the committed offset on."""
    last = made._committed_offset[PLACE]
    for offset in offsets:
        if offset - last > 1:
            await made._add_gap(PLACE, last + 1, offset)
        last = offset


async def test_one_commit_moves_past_all_that_is_acknowledged() -> None:
    made = consumer(10)
    await hand_over(made, 10, 12, 14, 17)
    made._acked[PLACE] = [10, 12, 14, 17]
    assert made._new_offset(PLACE) == 18


async def test_a_record_behind_a_gap_is_no_part_of_it() -> None:
    made = consumer(10)
    await hand_over(made, 10, 12, 14)
    made._acked[PLACE] = [10, 12]
    assert made._new_offset(PLACE) == 13
    made._acked[PLACE].append(14)
    made._committed_offset[PLACE] = 13
    assert made._new_offset(PLACE) == 15
