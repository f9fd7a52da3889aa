from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.health import PartitionHealth, ProcessHealth, Rows, document, stalled

TIMES = st.floats(0, 1_000)
PARTITIONS = st.builds(
    PartitionHealth,
    st.just("requests"),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    TIMES,
    TIMES,
    TIMES,
)
STATES = st.builds(
    ProcessHealth, st.none() | st.lists(PARTITIONS, max_size=4).map(tuple), TIMES, TIMES, st.booleans()
)
LIMITS = st.floats(0.1, 200)
BEHIND = PartitionHealth("requests", 0, 3, 5, False, 0.0, 0.0, 0.0)
STILL = ProcessHealth((BEHIND,), 0.0, 0.0, True)


@given(STATES, TIMES, LIMITS)
def test_a_stall_has_lag_and_nothing_younger_than_the_limit(
    state: ProcessHealth, now: float, limit: float
) -> None:
    stall = stalled(state, now, limit)
    if stall is None:
        return
    each = stall.partition
    assert state.reachable
    assert each.lag > 0
    younger = [each.owned_at, each.moved_at, each.behind_at, state.clocks_from]
    assert now - max([*younger, state.worked_at] if each.held else younger) == stall.seconds >= limit


@given(STATES, TIMES, LIMITS, st.floats(0, 100))
def test_once_stalled_time_alone_mends_nothing(
    state: ProcessHealth, now: float, limit: float, more: float
) -> None:
    if stalled(state, now, limit):
        assert stalled(state, now + more, limit)


@given(STATES, LIMITS)
def test_whatever_starts_the_clocks_anew_ends_a_stall(state: ProcessHealth, limit: float) -> None:
    now = 1_000.0
    assert stalled(replace(state, clocks_from=now), now, limit) is None
    assert stalled(replace(state, reachable=False), now, limit) is None
    assert stalled(state, now, 0) is None


@given(STATES, LIMITS)
def test_lag_that_nobody_touches_is_found(state: ProcessHealth, limit: float) -> None:
    late = 1_001.0 + limit
    behind = any(each.lag for each in state.partitions or ())
    assert (stalled(replace(state, reachable=True), late, limit) is not None) == behind


def test_a_held_partition_waits_for_the_process_and_another_does_not() -> None:
    working = replace(STILL, worked_at=100.0)
    assert stalled(working, 130.0, 120.0)
    held = replace(working, partitions=(replace(BEHIND, held=True),))
    assert not stalled(held, 130.0, 120.0)
    assert stalled(held, 220.0, 120.0)


def test_what_healthz_says() -> None:
    status, body = document(replace(STILL, partitions=None), 1.0, 120.0)
    assert (status, body["status"]) == (503, "starting")
    status, body = document(STILL, 1.0, 120.0)
    assert (status, body["status"], body["kafka"]) == (200, "ok", "reachable")
    assert body["partitions"] == [
        {
            "topic": "requests",
            "partition": 0,
            "position": 3,
            "end": 5,
            "lag": 2,
            "moved_s_ago": 1.0,
            "held": False,
        }
    ]
    status, body = document(STILL, 120.0, 120.0)
    assert (status, body["status"]) == (503, "stalled")
    assert body["reason"] == "requests[0] has not moved for 120 s with a lag of 2"
    assert "rows" not in body, "only a worker has them"
    _, body = document(replace(STILL, rows=Rows(3, 8)), 1.0, 120.0)
    assert body["rows"] == {"in_use": 3, "total": 8}
    assert document(replace(STILL, reachable=False), 500.0, 120.0)[0] == 200
    assert document(replace(STILL, partitions=()), 500.0, 120.0)[0] == 200


def test_before_the_first_look_nothing_is_known() -> None:
    new = replace(BEHIND, position=-1, end=-1)
    _, body = document(replace(STILL, partitions=(new,)), 1.0, 120.0)
    assert (body["partitions"][0]["position"], body["partitions"][0]["lag"]) == (None, None)
