from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.base import TaskKey
from pipeline.scheduling.tenants import SAVED, TenantQueues


def key(tenant: str, number: int) -> TaskKey:
    return TaskKey(f"{tenant}:{number}", 0, 0)


def tenant_of(task: TaskKey) -> str:
    return task.request_id.partition(":")[0]


class Everyone(dict[str, int]):
    """The same for each."""

    def __init__(self, cost: int) -> None:
        super().__init__()
        self._cost = cost

    def __missing__(self, _: str) -> int:
        return self._cost


def served(queues: TenantQueues, cost: int = 1) -> str:
    """Takes the next task out and lets it begin."""
    return begin(queues, Everyone(cost))


def begin(queues: TenantQueues, costs: dict[str, int]) -> str:
    task = queues.first()
    assert task is not None
    tenant = tenant_of(task)
    queues.remove(tenant, task)
    queues.charge(tenant, costs[tenant])
    return tenant


def flood(queues: TenantQueues, tenant: str, count: int, since: int = 0) -> None:
    for number in range(since, since + count):
        queues.put(tenant, key(tenant, number))


def test_a_tenants_tasks_keep_their_order_and_one_that_had_begun_is_first() -> None:
    queues = TenantQueues({})
    flood(queues, "a", 3)
    queues.put("a", key("a", 9), first=True)
    order: list[TaskKey] = []
    while (task := queues.first()) is not None:
        queues.remove("a", task)
        order.append(task)
    assert order == [key("a", number) for number in (9, 0, 1, 2)]
    assert len(queues) == 0


@pytest.mark.parametrize("flooded", [10, 10_000])
def test_a_request_passes_anothers_flood_however_long_that_is(flooded: int) -> None:
    """It has saved three samples of 1,024 tokens, as in mode standard, and is level with the flood at the fourth."""
    queues = TenantQueues({})
    flood(queues, "many", flooded)
    for _ in range(5):
        served(queues, 1024)
    flood(queues, "one", 5)
    assert [served(queues, 1024) for _ in range(6)] == [*["one"] * 4, "many", "one"]


@settings(deadline=None)
@given(
    floods=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 9)), max_size=12),
    costs=st.lists(st.integers(1, 2_048), min_size=120, max_size=120),
    weights=st.dictionaries(st.sampled_from("abcdenew"), st.integers(1, 7)),
    before=st.integers(0, 40),
)
def test_before_who_comes_anew_each_other_begins_at_most_what_it_has_saved_and_one_task(
    floods: list[tuple[str, int]], costs: list[int], weights: dict[str, int], before: int
) -> None:
    queues = TenantQueues(weights)
    for place, (tenant, count) in enumerate(floods):
        flood(queues, tenant, count, since=100 * place)
    for cost in costs[:before]:
        if len(queues):
            served(queues, cost)
    queues.put("new", key("new", 0))
    passed = Counter[str]()
    for cost in costs:
        tenant = served(queues, cost)
        if tenant == "new":
            break
        passed[tenant] += cost
    else:
        raise AssertionError("it never began")
    assert all(tokens <= SAVED * weights.get(tenant, 1) + max(costs) for tenant, tokens in passed.items())


@settings(deadline=None)
@given(
    weights=st.fixed_dictionaries({name: st.integers(1, 9) for name in "abc"}),
    costs=st.fixed_dictionaries({name: st.integers(1, 2_048) for name in "abcd"}),
    before=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=20),
    steps=st.integers(1, 300),
)
def test_tenants_that_wait_begin_tokens_by_their_weights(
    weights: dict[str, int], costs: dict[str, int], before: list[tuple[str, int]], steps: int
) -> None:
    """Goyal, Vin, Cheng 1996, theorem 1, and what was saved; who is not named weighs 1. The past buys no more."""
    queues = TenantQueues(weights)
    for tenant, count in before:
        flood(queues, tenant, count)
        while len(queues):
            begin(queues, costs)
    for tenant in costs:
        flood(queues, tenant, steps + 1)
    begun = Counter[str]()
    for _ in range(steps):
        tenant = begin(queues, costs)
        begun[tenant] += costs[tenant]
    for (a, a_cost), (b, b_cost) in itertools.combinations(costs.items(), 2):
        a_weight, b_weight = weights.get(a, 1), weights.get(b, 1)
        apart = abs(begun[a] / a_weight - begun[b] / b_weight)
        assert apart <= SAVED + a_cost / a_weight + b_cost / b_weight + 1e-9


def test_a_tenant_that_asks_one_at_a_time_has_no_more_than_its_share() -> None:
    queues = TenantQueues({})
    flood(queues, "flood", 500)
    queues.put("single", key("single", 0))
    count = Counter[str]()
    for number in range(1, 400):
        tenant = served(queues, SAVED)
        count[tenant] += 1
        if tenant == "single":
            queues.put("single", key("single", number))
    assert abs(count["single"] - count["flood"]) <= 2


def test_tenants_that_are_through_are_forgotten() -> None:
    queues = TenantQueues({})
    queues.put("waits", key("waits", 0))
    served(queues, 10 * SAVED)
    queues.put("waits", key("waits", 1))
    for number in range(5_000):  # always new ones, before one that waits
        queues.put(f"t{number}", key(f"t{number}", 0))
        assert served(queues) == f"t{number}"
    assert len(queues._idle) <= 1_025
    assert len(queues._tags) == 1
    alone = TenantQueues({})
    for number in range(5_000):
        alone.put(f"t{number % 9}", key("t", number))
        first = alone.first()
        assert first is not None
        alone.remove(f"t{number % 9}", first)
        alone.charge(f"t{number % 9}", SAVED)
    assert len(alone._idle) <= 9
