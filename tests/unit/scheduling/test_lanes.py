from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.scheduling.lanes import SAVED, DeficitRoundRobin

QUOTAS = (4, 3, 2, 1, 1, 1)
EVERY = range(len(QUOTAS))
readiness = st.lists(st.sets(st.sampled_from(EVERY)), max_size=120)
quotas = st.lists(st.integers(1, 50), min_size=6, max_size=6)
costs = st.lists(st.integers(1, 4_096), min_size=6, max_size=6)


def served(turns: DeficitRoundRobin, ready: set[int], cost: int) -> int | None:
    lane = turns.next(ready)
    if lane is not None:
        turns.charge(lane, cost)
    return lane


@settings(deadline=None)
@given(rounds=st.integers(1, 20))
def test_shares_are_the_quotas_when_every_lane_is_ready(rounds: int) -> None:
    """Tasks as long as the unit of what is saved make the classic rounds, the first of which is saved up."""
    turns = DeficitRoundRobin(QUOTAS)
    count = Counter(served(turns, set(EVERY), SAVED) for _ in range(rounds * sum(QUOTAS)))
    assert all(abs(count[lane] - rounds * QUOTAS[lane]) <= 1 for lane in EVERY)
    assert rounds > 1 or [count[lane] for lane in EVERY] == list(QUOTAS)


@settings(deadline=None)
@given(quotas=quotas, costs=costs, before=readiness, steps=st.integers(1, 600))
def test_lanes_that_wait_begin_tokens_by_their_quotas(
    quotas: list[int], costs: list[int], before: list[set[int]], steps: int
) -> None:
    """Whatever was before, and however long the tasks of a lane are."""
    turns = DeficitRoundRobin(quotas)
    for ready in before:
        lane = turns.next(ready)
        if lane is not None:
            turns.charge(lane, costs[lane])
    begun = [0] * len(quotas)
    for _ in range(steps):
        lane = turns.next(EVERY)
        assert lane is not None
        turns.charge(lane, costs[lane])
        begun[lane] += costs[lane]
    parts = [tokens / quota for tokens, quota in zip(begun, quotas, strict=True)]
    assert max(parts) - min(parts) < SAVED + 2 * max(costs)


@settings(deadline=None)
@given(steps=readiness, cost=st.integers(1, 4_096))
def test_a_turn_goes_to_a_ready_lane_whenever_there_is_one(steps: list[set[int]], cost: int) -> None:
    turns = DeficitRoundRobin(QUOTAS)
    for ready in steps:
        lane = served(turns, ready, cost)
        assert lane in ready if ready else lane is None


@settings(deadline=None)
@given(lane=st.sampled_from(EVERY), steps=readiness, cost=st.integers(1, 4_096))
def test_no_lane_starves(lane: int, steps: list[set[int]], cost: int) -> None:
    """While a lane waits, the others begin what they have saved, and by their quotas what it owes; no more."""
    turns = DeficitRoundRobin(QUOTAS)
    others = sum(QUOTAS) - QUOTAS[lane]
    passed = 0
    for ready in [*steps, *([set(EVERY)] * 300)]:
        passed = 0 if served(turns, ready | {lane}, cost) == lane else passed + cost
        assert passed <= others * (SAVED + cost) + len(QUOTAS) * cost


@settings(deadline=None)
@given(steps=readiness, lane=st.sampled_from(EVERY), overdue=st.integers(0, 50))
def test_the_past_neither_buys_nor_costs_a_lane_more_than_one_round(
    steps: list[set[int]], lane: int, overdue: int
) -> None:
    turns = DeficitRoundRobin(QUOTAS)
    for ready in steps:
        served(turns, ready, SAVED)
    for _ in range(overdue):
        turns.charge_out_of_turn(lane, SAVED)
    count = Counter(served(turns, set(EVERY), SAVED) for _ in range(10 * sum(QUOTAS)))
    assert all(abs(count[each] - 10 * QUOTAS[each]) <= QUOTAS[each] + 2 for each in EVERY)


@settings(deadline=None)
@given(steps=readiness, cost=st.integers(SAVED // 8, SAVED))
def test_a_lane_that_was_idle_for_long_is_served_next_and_as_often_as_its_quota(
    steps: list[set[int]], cost: int
) -> None:
    """The others first use up what they have saved, a round or less; then it has saved its own."""
    turns = DeficitRoundRobin(QUOTAS)
    for ready in steps:
        served(turns, ready, cost)
    for _ in range(24 * SAVED // cost):
        served(turns, set(EVERY) - {0}, cost)
    assert [served(turns, set(EVERY), cost) for _ in range(QUOTAS[0])] == [0] * QUOTAS[0]
