"""What is known of each endpoint, and when its next attempt may begin: circuit, rate and standing together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from pipeline import circuit_breaker as breaker
from pipeline.circuit_breaker import CLOSED, BreakerPolicy, Circuit
from pipeline.delivery.outcome import Outcome
from pipeline.delivery.standing import NOTHING_KNOWN, DisablePolicy, Standing, after
from pipeline.settings import WebhookSettings

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Endpoint:
    circuit: Circuit = CLOSED
    standing: Standing = NOTHING_KNOWN
    paced_to: float = 0.0


class Endpoints:
    """Keeps one circuit, one pace and one standing an endpoint. Endpoints that are well cost nothing."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._breaker = BreakerPolicy(settings.breaker_failures, settings.breaker_wait)
        self._disabling = DisablePolicy.of(settings.disable_after, max(settings.retry_schedule, default=0.0))
        self._space = 1 / settings.per_endpoint_rate if settings.per_endpoint_rate else 0.0
        self._known: dict[str, _Endpoint] = {}

    def begin_at(self, name: str, now: float) -> float:
        """When the next attempt may begin, seconds; not after ``now`` if at once, infinity while a probe runs."""
        known = self._known.get(name)
        if known is None:
            return now
        paced = known.paced_to if known.paced_to <= now + self._space else now  # the clock was set back
        at = max(paced, breaker.begin_at(known.circuit, now, self._breaker))
        self._settle(name, known, now)
        return at

    def begun(self, name: str, now: float) -> bool:
        """An attempt begins; returns whether it is a probe."""
        known = self._of(name)
        known.circuit = breaker.begun(known.circuit)
        known.paced_to = now + self._space if self._space else 0.0
        return known.circuit.probing

    def ended(self, name: str, outcome: Outcome | None, now: float, *, probe: bool) -> None:
        """An attempt has ended; None: it was given up before its outcome was known."""
        known = self._of(name)
        before, standing = known.circuit, known.standing
        up = None if outcome is None else outcome.up
        known.circuit = breaker.ended(before, up, now, self._breaker, probe=probe)
        if outcome is not None:
            known.standing = after(standing, outcome, int(now * 1000), self._disabling)
        if before.probe_at is None and known.circuit.probe_at is not None:
            log.warning("circuit opened", endpoint=name, failures=known.circuit.failures)
        if before.probe_at is not None and known.circuit.probe_at is None:
            log.info("circuit closed", endpoint=name)
        _tell(name, standing, known.standing)
        self._settle(name, known, now)

    def standing(self, name: str) -> Standing:
        known = self._known.get(name)
        return known.standing if known else NOTHING_KNOWN

    def failing(self, name: str) -> bool:
        """Whether the circuit is open."""
        known = self._known.get(name)
        return known is not None and known.circuit.probe_at is not None

    def learn(self, told: Mapping[str, Standing]) -> None:
        """Take what records say, where it is newer than what is known; what is well again is tried at once."""
        for name, standing in told.items():
            known = self._of(name)
            if standing.as_of >= known.standing.as_of:
                _tell(name, known.standing, standing)
                known.standing = standing
                if standing.failing_since is None:
                    known.circuit = CLOSED
            self._settle(name, known, 0.0)

    def _of(self, name: str) -> _Endpoint:
        return self._known.setdefault(name, _Endpoint())

    def _settle(self, name: str, known: _Endpoint, now: float) -> None:
        """Forget an endpoint of which there is nothing to know: names of hosts are without end."""
        if known.circuit == CLOSED and known.standing.failing_since is None and known.paced_to <= now:
            del self._known[name]


def _tell(name: str, before: Standing, now: Standing) -> None:
    if now.disabled and not before.disabled:
        log.error("endpoint disabled", endpoint=name, failing_since=now.failing_since)
    elif before.disabled and not now.disabled:
        log.warning("endpoint enabled", endpoint=name)
