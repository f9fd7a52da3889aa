"""The circuit breaker around something that can be down: an endpoint, an engine. Pure: state and time are passed in.

Closed, attempts begin freely. After ``failures`` in a row it opens: nothing begins until ``wait_s`` have
passed, and then one attempt, the probe. While it runs nothing else begins. A success closes the circuit,
whichever attempt brings it; a probe that fails begins the wait anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """When a circuit opens, and for how long.

    Attributes:
        failures: in a row; 0: it never opens.
        wait_s: seconds from a failure to the next probe.
    """

    failures: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Circuit:
    """Where one of them stands.

    Attributes:
        failures: in a row.
        probe_at: when the next probe may begin, seconds; None: the circuit is closed.
        probing: a probe is under way.
    """

    failures: int = 0
    probe_at: float | None = None
    probing: bool = False


CLOSED = Circuit()


def begin_at(circuit: Circuit, now: float, policy: BreakerPolicy) -> float:
    """When the next attempt may begin: not after ``now`` if it may at once, infinity while a probe runs."""
    if circuit.probe_at is None:
        return now
    if circuit.probing:
        return math.inf
    # A clock that was set back must not lengthen the wait.
    return now if circuit.probe_at > now + policy.wait_s else circuit.probe_at


def begun(circuit: Circuit) -> Circuit:
    """An attempt begins: in an open circuit it is the probe."""
    return circuit if circuit.probe_at is None else replace(circuit, probing=True)


def ended(circuit: Circuit, up: bool | None, now: float, policy: BreakerPolicy, *, probe: bool) -> Circuit:
    """An attempt has ended.

    Args:
        up: whether it works; None when the attempt does not tell, or was given up.
        probe: whether this attempt was the probe. One that had begun before the circuit opened is none, and
            its failure does not make the wait longer.
    """
    if up:
        return CLOSED
    probing = circuit.probing and not probe
    if up is None:
        return replace(circuit, probing=probing)
    failures = circuit.failures + 1
    opens = probe if circuit.probe_at is not None else 0 < policy.failures <= failures
    return Circuit(failures, now + policy.wait_s if opens else circuit.probe_at, probing)
