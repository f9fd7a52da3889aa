from __future__ import annotations

import itertools
import math

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.events import Kind, Mode, SampleTask, TaskGroup
from pipeline.scheduling.batching import BatchPolicy, pack

POLICY = BatchPolicy(max_batch=8, max_wait=100)
times = st.integers(0, 10_000)


def group(number: int, tasks: int) -> TaskGroup:
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
        max_new_tokens=1,
        created_at=0,
        deadline_at=0,
        tasks=tuple(SampleTask(index) for index in range(tasks)),
    )


@settings(deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 120), st.integers(1, 12)), max_size=40),
    max_groups=st.integers(1, 8),
    max_bytes=st.integers(1, 200),
    max_tasks=st.integers(1, 20),
)
def test_packing_keeps_order_and_limits_and_loses_nothing(
    sizes: list[tuple[int, int]], max_groups: int, max_bytes: int, max_tasks: int
) -> None:
    groups = [group(number, tasks) for number, (_, tasks) in enumerate(sizes)]
    length = {item.request_id: size for item, (size, _) in zip(groups, sizes, strict=True)}
    batches = list(
        pack(
            [(item, length[item.request_id]) for item in groups],
            max_groups=max_groups,
            max_bytes=max_bytes,
            max_tasks=max_tasks,
        )
    )
    assert [item for batch in batches for item in batch] == groups

    def fits(batch: list[TaskGroup]) -> bool:
        return (
            len(batch) <= max_groups
            and sum(length[item.request_id] for item in batch) <= max_bytes
            and sum(len(item.tasks) for item in batch) <= max_tasks
        )

    assert all(batch and (len(batch) == 1 or fits(list(batch))) for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert not fits([*batch, following[0]]), "closed too early"


@settings(deadline=None)
@given(waiting=st.integers(1, 20), first=times, since=st.integers(-10_000, 10_000))
def test_a_batch_never_waits_longer_than_it_may(waiting: int, first: int, since: int) -> None:
    closes = POLICY.closes_at(waiting=waiting, first_at=first, last_closed_at=first - since)
    assert closes <= first + POLICY.max_wait


@settings(deadline=None)
@given(waiting=st.integers(1, 7), first=times, since=st.integers(100, 10_000))
@example(waiting=1, first=0, since=100)
def test_a_request_that_meets_an_idle_lane_waits_for_nothing(waiting: int, first: int, since: int) -> None:
    assert POLICY.closes_at(waiting=waiting, first_at=first, last_closed_at=first - since) == first
    assert POLICY.closes_at(waiting=1, first_at=first, last_closed_at=-math.inf) == first


@settings(deadline=None)
@given(waiting=st.integers(8, 20), first=times, last=times)
def test_a_full_batch_closes_at_once(waiting: int, first: int, last: int) -> None:
    assert POLICY.closes_at(waiting=waiting, first_at=first, last_closed_at=last) == first


@settings(deadline=None)
@given(first=times, since=st.integers(0, 99))
def test_what_follows_on_its_heels_is_gathered(first: int, since: int) -> None:
    closes = POLICY.closes_at(waiting=7, first_at=first, last_closed_at=first - since)
    assert closes == first - since + 100 > first
