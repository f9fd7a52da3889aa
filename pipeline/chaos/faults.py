"""Does to the running processes what the plan says."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pipeline.chaos.mending import Mender
from pipeline.chaos.plan import Actor, Fault, FaultKind
from pipeline.chaos.watch import TRACE, Recovery, Watch
from pipeline.kafka.local_broker import LocalBroker
from pipeline.supervisor import Supervisor
from pipeline.telemetry import now_ms

PATIENCE = 60.0
"""Seconds to wait for a sign of life; then the plan goes on without it."""

GIVE_UP_AFTER = 3
"""Faults in a row without recovery, after which no more are made: what is down can not be hit."""

_LONG = 20.0
"""Seconds without recovery after which Kafka itself is looked at."""

_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was made; ``at`` in ms, ``recovery`` goes on being measured."""

    fault: Fault
    at: int
    recovery: Recovery


class Injector:
    """Makes one fault at a time; blocking.

    Attributes:
        mender: of the Kafka that faults hit.
    """

    def __init__(self, supervisor: Supervisor, broker: LocalBroker | None, watch: Watch) -> None:
        self._supervisor, self._broker, self._watch = supervisor, broker, watch
        self._clock = threading.Event()
        self.mender = Mender(broker)
        self.done: list[Injected] = []

    @property
    def has_broker(self) -> bool:
        """Whether a broker of our own runs."""
        return self._broker is not None

    def given_up(self) -> bool:
        """Whether the pipeline has not recovered from any of the last faults."""
        last = self.done[-GIVE_UP_AFTER:]
        unrecovered = [made for made in last if made.recovery.seconds is None]
        return len(unrecovered) == GIVE_UP_AFTER and self._watch.idle_for() > PATIENCE

    def wait(self, fault: Fault) -> None:
        """Until the pipeline has recovered from the fault before and the role shows that it works."""
        if fault.overlaps:
            self._clock.wait(fault.pause)
            return
        self.settle()
        self._clock.wait(fault.pause)
        kind = TRACE[fault.actor.role]
        seen = self._watch.counts[kind]
        until(lambda: self._watch.counts[kind] > seen)

    def settle(self) -> None:
        """Until the pipeline has recovered from the last fault, or patience ends."""
        if not self.done:
            return
        last = self.done[-1].recovery
        if not until(lambda: last.seconds is not None, _LONG) and (
            self.mender.mend() or self.mender.end_hanging()
        ):
            until(lambda: last.seconds is not None, _LONG)
        until(lambda: last.seconds is not None)

    def make(self, fault: Fault) -> Injected:
        """Kill or pause; a broker that was killed, and a process that was paused, goes on when this returns."""
        if fault.actor.is_broker:
            self.mender.end_hanging()
        pid = self._pid(fault.actor)
        injected = Injected(fault, now_ms(), self._watch.recovery())
        self.done.append(injected)
        if fault.kind is FaultKind.STOP:
            self._pause(pid, fault.lasts)
        elif fault.actor.is_broker:
            assert self._broker is not None
            self._broker.kill(fault.actor.number)
            try:
                self._clock.wait(fault.lasts)
            finally:
                self._broker.start()
        else:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return injected

    def _pause(self, pid: int, seconds: float) -> None:
        with suppress(ProcessLookupError):
            try:
                os.kill(pid, signal.SIGSTOP)
                self._clock.wait(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)

    def _pid(self, actor: Actor) -> int:
        """The process that plays the role now; waits for one that is just being started again."""
        if actor.is_broker:
            assert self._broker is not None
            return self._broker.pids[actor.number]
        until(lambda: actor.name in self._supervisor.pids)
        return self._supervisor.pids[actor.name]


def until(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait for a condition; whether it came true."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True
