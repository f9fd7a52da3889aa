from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.base import TaskKey
from pipeline.scheduling.aging import OTHERS, Aging

LANES = 6
lanes = st.integers(0, LANES - 1)


def key(number: int) -> TaskKey:
    return TaskKey(str(number), 0, 0)


def test_a_lane_is_overdue_when_its_oldest_has_waited_longer_than_the_bound() -> None:
    aging = Aging(LANES, 60_000)
    aging.put(3, key(2), queued_at=70)
    aging.put(3, key(1), queued_at=5)
    assert aging.due(60_005) is None
    assert aging.due(60_006) == 3
    aging.discard(3, key(1))
    assert aging.due(60_070) is None
    assert aging.due(60_071) == 3
    aging.discard(3, key(2))
    assert aging.due(10**9) is None


@given(st.sets(lanes, min_size=1), st.integers(0, 30))
def test_overdue_lanes_take_turns(overdue: set[int], turns: int) -> None:
    aging, count = Aging(LANES, 0), Counter[int]()
    for lane in overdue:
        aging.put(lane, key(lane), queued_at=lane)
    for _ in range(turns):
        lane = aging.due(1_000)
        assert lane is not None
        aging.began_overdue(lane, 1)
        aging.began_by_quota(OTHERS)
        count[lane] += 1
    assert max(count[lane] for lane in overdue) - min(count[lane] for lane in overdue) <= 1
    assert set(count) <= overdue


@settings(deadline=None)
@given(
    costs=st.lists(st.integers(1, 4_096), min_size=20, max_size=20),
    others=st.lists(st.integers(1, 4_096), min_size=80, max_size=80),
)
def test_the_overdue_have_an_eighth_and_no_more(costs: list[int], others: list[int]) -> None:
    aging = Aging(LANES, 0)
    aging.put(5, key(0), 0)
    overdue = by_quota = turns = 0
    for other in others:
        if costs and aging.due(1_000) is not None:
            assert by_quota >= OTHERS * overdue
            overdue += (cost := costs.pop())
            turns += 1
            aging.began_overdue(5, cost)
        else:
            assert not costs or by_quota < OTHERS * overdue + turns * max(others)
            aging.began_by_quota(other)
            by_quota += other
