"""The circuit as a function of what happened and when."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.circuit_breaker import CLOSED, BreakerPolicy, Circuit, begin_at, begun, ended

POLICY = BreakerPolicy(failures=3, wait_s=30.0)


def failed(circuit: Circuit, *times: float) -> Circuit:
    for now in times:
        circuit = ended(circuit, False, now, POLICY, probe=False)
    return circuit


def test_it_opens_with_the_third_failure_in_a_row_and_lets_one_probe_begin_after_the_wait() -> None:
    two = failed(CLOSED, 1.0, 2.0)
    assert begin_at(two, 2.0, POLICY) <= 2.0
    three = failed(two, 3.0)
    assert begin_at(three, 3.0, POLICY) == 33.0
    probing = begun(three)
    assert begin_at(probing, 99.0, POLICY) == math.inf
    assert begin_at(ended(probing, False, 50.0, POLICY, probe=True), 50.0, POLICY) == 80.0
    assert ended(probing, True, 50.0, POLICY, probe=True) == CLOSED


def test_a_success_in_between_begins_the_count_anew() -> None:
    circuit = ended(failed(CLOSED, 1.0, 2.0), True, 3.0, POLICY, probe=False)
    assert failed(circuit, 4.0, 5.0).probe_at is None


def test_what_had_begun_before_it_opened_closes_it_and_does_not_keep_it_open_longer() -> None:
    opened = failed(CLOSED, 1.0, 2.0, 3.0)
    assert begin_at(failed(opened, 20.0), 20.0, POLICY) == 33.0
    probing = begun(opened)
    assert begin_at(failed(probing, 40.0), 40.0, POLICY) == math.inf
    assert ended(opened, True, 4.0, POLICY, probe=False) == CLOSED


def test_a_probe_that_tells_nothing_makes_room_for_the_next_at_once() -> None:
    probing = begun(failed(CLOSED, 1.0, 2.0, 3.0))
    assert begin_at(ended(probing, None, 40.0, POLICY, probe=True), 40.0, POLICY) <= 40.0


def test_a_clock_that_is_set_back_does_not_make_the_wait_longer() -> None:
    opened = failed(CLOSED, 1001.0, 1002.0, 1003.0)
    assert begin_at(opened, 10.0, POLICY) <= 10.0


def test_without_a_threshold_it_never_opens() -> None:
    circuit = CLOSED
    for now in range(100):
        circuit = ended(circuit, False, float(now), BreakerPolicy(0, 30.0), probe=False)
    assert circuit.probe_at is None


steps = st.lists(
    st.tuples(st.floats(0, 100), st.sampled_from(["begin", "up", "down", "silent"]), st.integers(0, 9))
)


@settings(deadline=None)
@given(steps, st.integers(1, 4))
def test_an_open_circuit_has_one_probe_at_a_time_and_never_two_within_the_wait(steps, failures: int) -> None:
    """A model that keeps the running attempts; what begins is only what `begin_at` lets begin."""
    policy = BreakerPolicy(failures, 30.0)
    circuit, now, row = CLOSED, 0.0, 0
    running: list[bool] = []
    last_failure = -math.inf
    for passed, what, which in steps:
        now += passed
        was_open = circuit.probe_at is not None
        if what == "begin":
            if begin_at(circuit, now, policy) <= now:
                assert not (was_open and any(running))
                assert not was_open or now >= last_failure + 30.0 or circuit.probe_at is None
                circuit = begun(circuit)
                running.append(was_open)
            continue
        if not running:
            continue
        probe = running.pop(which % len(running))
        up = {"up": True, "down": False, "silent": None}[what]
        row = 0 if up else row + (up is False)
        circuit = ended(circuit, up, now, policy, probe=probe)
        if up is False and (probe or not was_open):
            last_failure = now
        if up:
            running = [False] * len(running)  # a circuit that has closed has no probe any more
        assert (circuit.probe_at is not None) == (row >= failures)
        assert circuit.failures == row
        assert circuit.probing == any(running)
