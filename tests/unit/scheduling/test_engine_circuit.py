"""An engine that fails is probed by one sample at a time, and what it failed is drawn again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.circuit_breaker import BreakerPolicy
from pipeline.engine.base import Completion, TaskKey
from pipeline.errors import (
    ContextExceededError,
    EngineError,
    ModelServerDownError,
    NonFiniteLogitsError,
    OutOfMemoryError,
    ServerAccessError,
    ServerRefusedError,
)
from pipeline.events import ErrorInfo, FinishReason
from pipeline.scheduling.engine_circuit import EngineCircuit, is_fault

POLICY = BreakerPolicy(failures=3, wait_s=10.0)
GOOD = Completion(TaskKey("r", 0, 0), "x", FinishReason.STOP, 1, 1, -0.5, 1, 0.0, 0.0, 0.0)


def good(number: int) -> Completion:
    return replace(GOOD, key=TaskKey("r", 0, number))


def failed(number: int, code: str = EngineError.code) -> Completion:
    return replace(good(number), finish_reason=FinishReason.ERROR, error=ErrorInfo(code, "it broke"))


def opened(at: float = 5.0) -> EngineCircuit:
    circuit = EngineCircuit(POLICY)
    for number in range(POLICY.failures):
        circuit.begun(failed(number).key)
    for number in range(POLICY.failures):
        assert circuit.ended(failed(number), at)
    return circuit


@pytest.mark.parametrize("error", [EngineError, ModelServerDownError, ServerAccessError])
def test_these_tell_of_the_engine(error: type[EngineError]) -> None:
    assert is_fault(failed(0, error.code))


@pytest.mark.parametrize(
    "error", [ContextExceededError, NonFiniteLogitsError, OutOfMemoryError, ServerRefusedError]
)
def test_these_tell_of_the_sample_and_open_nothing(error: type[EngineError]) -> None:
    circuit = EngineCircuit(POLICY)
    for number in range(10):
        circuit.begun(TaskKey("r", 0, number))
        assert not circuit.ended(failed(number, error.code), 1.0)
    assert circuit.room(8, 1.0) == 8


def test_lanes_pause_after_failures_in_a_row_and_one_probe_at_a_time_begins() -> None:
    circuit = opened(at=5.0)
    assert circuit.is_open and circuit.room(8, 14.9) == 0
    assert circuit.room(8, 15.0) == 1 and circuit.room(0, 15.0) == 0
    circuit.begun(TaskKey("probe", 0, 0))
    assert circuit.room(8, 99.0) == 0
    assert circuit.ended(replace(failed(0), key=TaskKey("probe", 0, 0)), 20.0)
    assert circuit.room(8, 29.9) == 0 and circuit.room(8, 30.0) == 1
    assert circuit.open_for(30.0) == 25.0


def test_a_probe_that_ends_well_closes_it_and_everything_goes_on() -> None:
    circuit = opened()
    circuit.begun(TaskKey("r", 0, 9))
    assert not circuit.ended(good(9), 16.0)
    assert circuit.room(8, 16.0) == 8 and circuit.open_for(99.0) == 0.0


def test_a_probe_that_was_cancelled_before_its_first_token_tells_nothing_and_the_next_one_may_begin() -> None:
    circuit = opened()
    circuit.begun(TaskKey("r", 0, 9))
    ended = replace(good(9), finish_reason=FinishReason.CANCELLED, first_token_at=None, text="")
    assert not circuit.ended(ended, 16.0)
    assert circuit.is_open and circuit.room(8, 16.0) == 1


def test_a_sample_of_before_that_ends_well_closes_it() -> None:
    circuit = opened()
    circuit.ended(good(99), 6.0)
    assert not circuit.is_open


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ok", "fault", "own", "begin", "wait"]), st.integers(0, 3))))
def test_at_most_one_sample_begins_while_it_is_open_and_it_never_sticks(
    steps: list[tuple[str, int]],
) -> None:
    circuit, now, begun = EngineCircuit(POLICY), 0.0, list[int]()
    probes: set[int] = set()
    for count, (step, pick) in enumerate(steps):
        if step == "wait":
            now += 4.0
        elif step == "begin":
            for _ in range(room := circuit.room(2, now)):
                number = 1000 * count + _
                if circuit.is_open:
                    assert room == 1 and not probes & set(begun)
                    probes.add(number)
                circuit.begun(TaskKey("r", 0, number))
                begun.append(number)
        elif begun:
            number = begun.pop(pick % len(begun))
            own = failed(number, NonFiniteLogitsError.code)
            circuit.ended({"ok": good(number), "fault": failed(number), "own": own}[step], now)
        if not circuit.is_open:
            probes.clear()
    for number in begun:
        circuit.ended(failed(number), now)
    assert circuit.room(1, now + POLICY.wait_s) == 1
