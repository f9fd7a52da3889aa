"""The order in which free rows are given, at the desk: urgent, fair, bounded, and at a cost that does not grow."""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.base import Completion, TaskKey
from pipeline.events import FinishReason, Kind, Message, Mode, SampleTask, TaskGroup
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.aging import OTHERS
from pipeline.scheduling.desk import TaskDesk
from pipeline.scheduling.waiting import Assigned, Waiting, Why

QUOTAS = (4, 3, 2, 1, 1, 1)
NEVER = 10**12


class Source:
    """Tasks with offsets of their own."""

    def __init__(self) -> None:
        self._offsets = itertools.count()

    def task(
        self, lane: int, *, tenant: str = "t", tokens: int = 1024, queued_at: int = 0, deadline: int = NEVER
    ) -> Assigned:
        offset = next(self._offsets)
        group = TaskGroup(
            request_id=f"{tenant}-{offset}",
            run=0,
            tenant=tenant,
            priority=lane,
            mode=Mode.FAST,
            kind=Kind.ANSWER,
            path="direct",
            messages=(Message("user", "?"),),
            temperature=0.5,
            top_p=1.0,
            max_new_tokens=tokens,
            created_at=0,
            deadline_at=deadline,
            tasks=(),
        )
        place = (f"batches.{lane}", 0)
        work = Work(*place, offset, 0, 0)
        return Assigned(group, SampleTask(0), Finished(place, offset, 0), queued_at, lane, work)


def full_desk(
    source: Source, rows: int, *, lanes: range = range(6), each: int = 32, **options: Any
) -> tuple[TaskDesk, deque[Assigned]]:
    """A desk whose lanes are full and whose rows are taken."""
    desk = TaskDesk(QUOTAS, **options)
    for lane in lanes:
        for _ in range(each):
            desk.take(source.task(lane))
    return desk, deque(desk.begin(rows, now=0))


def free_a_row(desk: TaskDesk, running: deque[Assigned], now: int = 0) -> Assigned:
    """The oldest row ends; returns what takes its place."""
    ended = running.popleft()
    desk.end(Completion(ended.key, "x", FinishReason.STOP, 1, 1, -0.5, 1, 0.0, 0.0, 0.0))
    _, finished = desk.publishable()
    desk.published(finished)
    (begun,) = desk.begin(1, now=now)
    running.append(begun)
    return begun


@given(rows=st.integers(1, 16), before=st.integers(0, 40))
def test_an_urgent_request_behind_a_full_queue_has_the_next_freed_rows(rows: int, before: int) -> None:
    source = Source()
    desk, running = full_desk(source, rows, lanes=range(1, 6))
    for _ in range(before):
        desk.take(source.task(free_a_row(desk, running).lane))
    urgent = [source.task(0) for _ in range(3)]  # a request of mode standard
    for item in urgent:
        desk.take(item)
    assert [free_a_row(desk, running) for _ in urgent] == urgent


@given(before=st.integers(0, 40), late=st.integers(1, 1_000))
def test_an_urgent_request_waits_for_at_most_one_overdue_task(before: int, late: int) -> None:
    source, now = Source(), 60_000 + late
    desk, running = full_desk(source, 8, lanes=range(1, 6), max_lane_wait=60.0)
    for _ in range(before):
        desk.take(source.task(free_a_row(desk, running, now).lane))
    desk.take(urgent := source.task(0, queued_at=now))
    assert urgent in (free_a_row(desk, running, now), free_a_row(desk, running, now))


@pytest.mark.parametrize("age", [0, 3_600_000])
@pytest.mark.parametrize("tokens", [64, 1024, 4096])
def test_shares_stay_within_five_points_however_old_a_low_lanes_backlog_is(age: int, tokens: int) -> None:
    source, desk = Source(), TaskDesk(QUOTAS, max_lane_wait=60.0)
    begun: Counter[int] = Counter()
    now = age
    while begun.total() < 1_000 * 1024:
        now += 1
        for lane in range(6):
            while desk.waiting(lane) < 32:
                task = (
                    source.task(lane, tokens=tokens, queued_at=now - age)
                    if lane == 5
                    else source.task(lane, queued_at=now)
                )
                desk.take(task)
        for item in desk.begin(1, now=now):
            begun[item.lane] += item.cost
    shares = [100 * begun[lane] / begun.total() for lane in range(6)]
    assert all(abs(share - 100 * quota / 12) < 5 for share, quota in zip(shares, QUOTAS, strict=True))
    assert age < 60_000 or tokens < 1024 or 12 < shares[5] < 13


def test_a_task_is_never_overdue_without_a_bound_and_a_clock_ahead_of_ours_harms_nothing() -> None:
    source = Source()
    for bound, queued_at in ((float("inf"), -(10**12)), (60.0, 10**12)):
        desk = TaskDesk(QUOTAS, max_lane_wait=bound)
        desk.take(source.task(5, queued_at=queued_at))
        desk.take(first := source.task(0, queued_at=5))
        assert next(desk.begin(1, now=10)) == first


arrivals = st.tuples(
    st.integers(0, 5), st.sampled_from("abc"), st.sampled_from((16, 512, 1024, 4096)), st.integers(0, 300)
)


@settings(deadline=None)
@given(
    items=st.lists(arrivals, min_size=1, max_size=80),
    quotas=st.lists(st.sampled_from((1, 3, 1_000)), min_size=6, max_size=6),
    step=st.integers(1, 40),
    bound=st.integers(50, 400),
)
def test_an_overdue_lane_has_a_turn_within_its_bound_whatever_the_quotas(
    items: list[tuple[int, str, int, int]], quotas: list[int], step: int, bound: int
) -> None:
    """Before (OTHERS + 1) · lanes · c tokens have begun by the quotas; and every task begins."""
    source, now, longest = Source(), 300, 4096
    waiting = Waiting(quotas, max_wait=bound, weights={})
    tasks: dict[TaskKey, Assigned] = {}
    for lane, tenant, tokens, queued_at in items:
        item = source.task(lane, tenant=tenant, tokens=tokens, queued_at=queued_at)
        tasks[item.key] = item
        waiting.put(item)
    by_quota, since = 0, dict.fromkeys(range(6), 0)
    while (turn := waiting.next(None, idle=False, now=now)) is not None:
        overdue = {item.lane for item in tasks.values() if now - item.queued_at > bound}
        for lane in range(6):
            since[lane] = since[lane] if lane in overdue else by_quota
            assert by_quota - since[lane] < (OTHERS + 1) * 6 * longest
        item = tasks.pop(turn.key)
        assert turn.why is Why.QUOTA or item.lane in overdue
        waiting.charge(item, turn.why)
        by_quota += item.cost if turn.why is Why.QUOTA else 0
        since[item.lane] = by_quota
        now += step
    assert not tasks, "work-conserving"


def test_a_low_lanes_trickle_is_served_beside_a_better_lanes_old_flood() -> None:
    source, desk = Source(), TaskDesk((1_000, 1, 1, 1, 1, 1), max_lane_wait=60.0)
    desk.take(source.task(5, tokens=4096))  # more than its quota gives it for long
    for _ in range(2_000):
        desk.take(source.task(0))
    list(desk.begin(1_500, now=0))
    desk.take(low := source.task(5))
    assert low not in list(desk.begin(100, now=60_000))
    assert low in list(desk.begin(16, now=60_001))


def test_a_tenants_old_flood_does_not_hold_up_another_in_an_overdue_lane() -> None:
    source, desk, now = Source(), TaskDesk(QUOTAS, max_lane_wait=60.0), 100_000
    for lane in range(5):
        for _ in range(1_000):
            desk.take(source.task(lane, queued_at=now))
    for _ in range(1_000):
        desk.take(source.task(5, tenant="flood"))
    list(desk.begin(500, now=now))
    desk.take(one := source.task(5, tenant="one", queued_at=now))
    assert one in list(desk.begin(8, now=now)), "the lane's next turn"


def test_a_tenants_flood_does_not_hold_up_anothers_request_and_lanes_go_first() -> None:
    source, desk = Source(), TaskDesk(QUOTAS)
    for _ in range(10_000):
        desk.take(source.task(3, tenant="flood"))
    list(desk.begin(8, now=0))
    desk.take(one := source.task(3, tenant="one"))
    desk.take(urgent := source.task(0, tenant="flood"))
    assert list(desk.begin(2, now=0)) == [urgent, one]


def test_weights_divide_a_lane_between_its_tenants() -> None:
    source, desk = Source(), TaskDesk(QUOTAS, tenant_weights={"gold": 3})
    for tenant in ("gold", "plain", "other"):
        for _ in range(100):
            desk.take(source.task(2, tenant=tenant))
    begun = Counter(item.group.tenant for item in desk.begin(100, now=0))
    assert begun == {"gold": 60, "plain": 20, "other": 20}


def test_a_lane_of_long_tasks_has_no_more_of_the_engine_than_its_quota() -> None:
    source, desk = Source(), TaskDesk(QUOTAS)
    for _ in range(4_000):
        desk.take(source.task(0, tokens=64))
        desk.take(source.task(5, tokens=2048))
    tokens: Counter[int] = Counter()
    for item in desk.begin(2_000, now=0):
        tokens[item.lane] += item.cost
    assert tokens[0] / tokens[5] == pytest.approx(4, rel=0.1)


def test_what_is_not_begun_because_nobody_waits_for_it_costs_its_lane_and_tenant_nothing() -> None:
    source, desk = Source(), TaskDesk(QUOTAS)
    for _ in range(50):
        desk.take(source.task(0, tenant="late", deadline=5))
    late = [source.task(0, tenant="late") for _ in range(4)]
    for item in (*late, *(source.task(1) for _ in range(8))):
        desk.take(item)
    assert list(desk.begin(4, now=5)) == late


class Counted(int):
    """A time that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def steps_of_decisions(waiting: int, decisions: int) -> float:
    """Lines of Python that run, and times that are compared, a decision; time itself is not looked at."""
    source, desk = Source(), TaskDesk(QUOTAS, max_lane_wait=60.0)
    tenants = [f"t{number}" for number in range(100)]
    for number in range(waiting):
        desk.take(
            source.task(number % 6, tenant=tenants[number % 97], queued_at=Counted(number * 7919 % waiting))
        )
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += 1
        return trace

    Counted.compared, before = 0, sys.gettrace()
    sys.settrace(trace)
    try:
        for number in range(decisions):
            now = 60_000 + waiting // 2 if number % 2 else 0
            (begun,) = desk.begin(1, now=now)
            desk.end(Completion(begun.key, "x", FinishReason.STOP, 1, 1, -0.5, 1, 0.0, 0.0, 0.0))
            desk.published(desk.publishable()[1])
            desk.take(source.task(begun.lane, tenant=begun.group.tenant, queued_at=Counted(now)))
    finally:
        sys.settrace(before)
    return (lines + Counted.compared) / decisions


def test_a_decision_costs_no_more_with_many_waiting() -> None:
    few, many = steps_of_decisions(1_000, 200), steps_of_decisions(50_000, 200)
    assert many <= 1.2 * few
