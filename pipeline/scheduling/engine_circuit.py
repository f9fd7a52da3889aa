"""The circuit breaker around a worker's engine. Pure: time is passed in.

While it is open nothing begins but one probe at a time: what waits stays in its lane, where no sample's time-out
runs, and its request's deadline goes on. A sample that failed by the engine's fault is drawn again a few times
before it counts as failed: it may have met nothing but the fault of its neighbour.
"""

from __future__ import annotations

import structlog

from pipeline import circuit_breaker as breaker
from pipeline.circuit_breaker import CLOSED, BreakerPolicy
from pipeline.engine.base import Completion, TaskKey
from pipeline.errors import EngineError, ModelServerDownError, ServerAccessError

FAULTS = frozenset({EngineError.code, ModelServerDownError.code, ServerAccessError.code})
"""Codes of a sample's error that tell of the engine; all others tell of the sample."""

log = structlog.get_logger(__name__)


class EngineCircuit:
    """Says how much may begin. Seconds of any clock."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._circuit = CLOSED
        self._probe: TaskKey | None = None
        self._opened_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._circuit.probe_at is not None

    def open_for(self, now: float) -> float:
        """For how long it has been open, in seconds."""
        return now - self._opened_at if self.is_open else 0.0

    def room(self, free: int, now: float) -> int:
        """How many samples may begin, of ``free`` for which the engine has room."""
        if not self.is_open:
            return free
        return min(free, 1) if breaker.begin_at(self._circuit, now, self._policy) <= now else 0

    def begun(self, key: TaskKey) -> None:
        """A sample begins: in an open circuit it is the probe."""
        if self.is_open:
            self._probe = key
        self._circuit = breaker.begun(self._circuit)

    def ended(self, completion: Completion, now: float) -> bool:
        """A sample has ended; returns whether the engine is to blame for how."""
        fault = is_fault(completion)
        probe, was_open = completion.key == self._probe, self.is_open
        if probe:
            self._probe = None
        up = False if fault else (None if completion.error or _tells_nothing(completion) else True)
        self._circuit = breaker.ended(self._circuit, up, now, self._policy, probe=probe)
        if self.is_open and not was_open:
            self._opened_at = now
            error = completion.error.message if completion.error else ""
            log.error("the engine fails: lanes pause", wait_s=self._policy.wait_s, error=error)
        elif was_open and not self.is_open:
            log.info("the engine works again: lanes go on")
        return fault


def is_fault(completion: Completion) -> bool:
    """Whether the sample failed by the engine's fault."""
    return completion.error is not None and completion.error.code in FAULTS


def _tells_nothing(completion: Completion) -> bool:
    """One that was cancelled or ran out of time before its first token: the engine may be down or busy."""
    return completion.first_token_at is None
