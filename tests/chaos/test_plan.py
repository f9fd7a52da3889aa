"""The plan of faults is a pure function of its arguments."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.chaos.plan import Actor, Fault, FaultKind, make_plan

ACTORS = [
    Actor(role, number)
    for role, size in {"batcher": 2, "worker": 2, "aggregator": 2, "webhook": 2, "broker": 1}.items()
    for number in range(size)
]
SESSION = 8.0


def plan(seed: int, kills: int) -> tuple[Fault, ...]:
    return make_plan(seed=seed, kills=kills, actors=ACTORS, session_timeout=SESSION, mean_pause=1.0)


@given(seed=st.integers(0, 2**40), kills=st.integers(1, 300))
def test_same_arguments_same_plan(seed: int, kills: int) -> None:
    assert plan(seed, kills) == plan(seed, kills)


@given(seed=st.integers(0, 2**40), kills=st.integers(1, 300))
def test_so_many_kills_spread_evenly_over_all_actors(seed: int, kills: int) -> None:
    killed = Counter(fault.actor for fault in plan(seed, kills) if fault.kind is FaultKind.KILL)
    assert killed.total() == kills
    assert max(killed.values()) - min(killed[actor] for actor in ACTORS) <= 1


@given(seed=st.integers(0, 2**40), kills=st.integers(1, 300))
def test_the_first_fault_waits_and_pauses_are_bounded(seed: int, kills: int) -> None:
    faults = plan(seed, kills)
    assert not faults[0].overlaps
    assert all(0 <= fault.pause <= 3 for fault in faults)
    assert all(fault.lasts <= 1.4 * SESSION for fault in faults)


def test_another_seed_is_another_plan() -> None:
    assert plan(1, 50) != plan(2, 50)


def test_some_pauses_outlast_the_session_and_some_do_not() -> None:
    pauses = [f.lasts for f in plan(1, 200) if f.kind is FaultKind.STOP and not f.actor.is_broker]
    assert any(lasts > SESSION for lasts in pauses)
    assert any(lasts < SESSION for lasts in pauses)


def test_no_pause_between_faults_if_none_is_asked_for() -> None:
    faults = make_plan(seed=1, kills=5, actors=ACTORS, session_timeout=SESSION, mean_pause=0.0)
    assert all(fault.pause == 0 for fault in faults)
