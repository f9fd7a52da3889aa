from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import Kind, Mode, SampleTask, TaskGroup
from pipeline.scheduling.batching import Arrivals, BatchPolicy, pack

POLICY = BatchPolicy(max_batch=8, max_wait=0.1, burst_wait=0.01)
times = st.integers(0, 10_000)


def group(number: int, tasks: int, tokens: int = 1) -> TaskGroup:
    return TaskGroup(
        request_id=f"r{number}",
        run=0,
        tenant="t",
        priority=3,
        mode=Mode.FAST,
        kind=Kind.ANSWER,
        path="direct",
        messages=(),
        temperature=0.0,
        top_p=1.0,
        max_new_tokens=tokens,
        created_at=0,
        deadline_at=0,
        tasks=tuple(SampleTask(index) for index in range(tasks)),
    )


@settings(deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 120), st.integers(1, 12), st.integers(1, 60)), max_size=40),
    max_groups=st.integers(1, 8),
    max_bytes=st.integers(1, 200),
    max_tasks=st.integers(1, 20),
    max_tokens=st.integers(1, 500),
)
def test_packing_keeps_order_limits_and_prompts_together_and_loses_nothing(
    sizes: list[tuple[int, int, int]], max_groups: int, max_bytes: int, max_tasks: int, max_tokens: int
) -> None:
    groups = [group(number, tasks, tokens) for number, (_, tasks, tokens) in enumerate(sizes)]
    length = {item.request_id: size for item, (size, _, _) in zip(groups, sizes, strict=True)}
    batches = list(
        pack(
            [(item, length[item.request_id]) for item in groups],
            max_groups=max_groups,
            max_bytes=max_bytes,
            max_tasks=max_tasks,
            max_tokens=max_tokens,
        )
    )
    assert [item for batch in batches for item in batch] == groups

    def fits(batch: list[TaskGroup]) -> bool:
        return (
            len(batch) <= max_groups
            and sum(length[item.request_id] for item in batch) <= max_bytes
            and sum(len(item.tasks) for item in batch) <= max_tasks
            and sum(len(item.tasks) * item.max_new_tokens for item in batch) <= max_tokens
        )

    assert all(batch and (len(batch) == 1 or fits(list(batch))) for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert not fits([*batch, following[0]]), "closed too early"


def arriving(rate: float, seconds: float, since: Arrivals | None = None, at: float = 0.0) -> Arrivals:
    """What is known after so many seconds of requests at one rate."""
    arrivals = since or Arrivals()
    for number in range(round(rate * seconds)):
        arrivals.note(1, at + number / rate)
    return arrivals


@given(rate=st.integers(1, 2_000), seconds=st.integers(5, 8))
def test_the_rate_is_that_of_the_last_seconds(rate: int, seconds: int) -> None:
    before = arriving(3, 300)
    assert arriving(rate, seconds, before, at=300).rate == pytest.approx(rate, rel=0.1, abs=1.0)


@given(waiting=st.integers(1, 20), first=times, rate=st.integers(1, 2_000))
def test_a_batch_never_waits_longer_than_it_may(waiting: int, first: int, rate: int) -> None:
    closes = POLICY.closes_at(waiting=waiting, first_at=first, arrivals=arriving(rate, 2))
    assert first <= closes <= first + POLICY.max_wait


@given(waiting=st.integers(1, 7), rate=st.integers(1, 70))
def test_nobody_waits_for_a_batch_that_would_not_fill(waiting: int, rate: int) -> None:
    assert POLICY.closes_at(waiting=waiting, first_at=5, arrivals=Arrivals()) == 5
    assert POLICY.closes_at(waiting=waiting, first_at=5, arrivals=arriving(rate, 2)) == 5


@given(waiting=st.integers(8, 20), first=times)
def test_a_full_batch_closes_at_once(waiting: int, first: int) -> None:
    assert POLICY.closes_at(waiting=waiting, first_at=first, arrivals=arriving(500, 2)) == first


def test_a_batch_that_fills_is_waited_for_and_less_long_in_a_burst() -> None:
    steady = arriving(100, 120)
    assert not steady.burst
    assert POLICY.closes_at(waiting=7, first_at=5, arrivals=steady) == 5 + POLICY.max_wait
    burst = arriving(200, 0.6, arriving(1, 120), at=120)
    assert burst.burst
    assert POLICY.closes_at(waiting=7, first_at=5, arrivals=burst) == 5 + POLICY.burst_wait
