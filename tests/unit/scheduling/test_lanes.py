from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.scheduling.lanes import WeightedRoundRobin

QUOTAS = (4, 3, 2, 1, 1, 1)
EVERY = range(len(QUOTAS))
readiness = st.lists(st.sets(st.sampled_from(EVERY)), max_size=120)


@settings(deadline=None)
@given(rounds=st.integers(1, 20))
def test_shares_are_the_quotas_when_every_lane_is_ready(rounds: int) -> None:
    turns = WeightedRoundRobin(QUOTAS)
    count = Counter(turns.next(EVERY) for _ in range(rounds * sum(QUOTAS)))
    assert [count[lane] for lane in EVERY] == [rounds * quota for quota in QUOTAS]


@settings(deadline=None)
@given(steps=readiness)
def test_a_turn_goes_to_a_ready_lane_whenever_there_is_one(steps: list[set[int]]) -> None:
    turns = WeightedRoundRobin(QUOTAS)
    for ready in steps:
        lane = turns.next(ready)
        assert lane in ready if ready else lane is None


@settings(deadline=None)
@given(lane=st.sampled_from(EVERY), steps=readiness)
def test_no_lane_starves(lane: int, steps: list[set[int]]) -> None:
    """A lane that is always ready is passed over for less than two rounds."""
    turns = WeightedRoundRobin(QUOTAS)
    passed = 0
    for others in [*steps, *([set(EVERY)] * 24)]:
        passed = 0 if turns.next(others | {lane}) == lane else passed + 1
        assert passed < 2 * sum(QUOTAS)


@settings(deadline=None)
@given(steps=readiness)
def test_the_past_buys_no_lane_more_than_one_round(steps: list[set[int]]) -> None:
    turns = WeightedRoundRobin(QUOTAS)
    for ready in steps:
        turns.next(ready)
    count = Counter(turns.next(EVERY) for _ in range(10 * sum(QUOTAS)))
    assert all(abs(count[lane] - 10 * QUOTAS[lane]) <= QUOTAS[lane] for lane in EVERY)
