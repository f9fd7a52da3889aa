"""Whether one more request is let in, by what waits already. Pure.

Only the front door asks: what is produced to Kafka directly is never refused, and counts here as what it is, a
request that waits. The door closes at a limit and opens again well below it: between the two nothing changes, so
that it does not flap while the backlog stands near one number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.events import Mode
from pipeline.store.tasks import Load

_OPENS_AT = 0.8
_LEAST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_FAST_BATCHES = 5
"""Batches that wait for the engine, from which a fast request would not be fast."""


@dataclass(frozen=True, slots=True)
class Door:
    """Open below a limit, with hysteresis."""

    limit: int
    closed: bool = False

    @property
    def opens_at(self) -> float:
        return _OPENS_AT * self.limit

    def after(self, waiting: int) -> Door:
        """The door once this many wait."""
        return replace(self, closed=waiting >= self.limit or (self.closed and waiting > self.opens_at))


@dataclass(frozen=True, slots=True)
class Admission:
    """The doors: for everything that waits, and for mode fast by what waits for the engine."""

    all: Door
    fast: Door

    @classmethod
    def of(cls, backlog_limit: int, max_batch: int) -> Admission:
        return cls(Door(backlog_limit), Door(_FAST_BATCHES * max_batch))

    def after(self, load: Load) -> Admission:
        """As it stands once the load is this."""
        return Admission(self.all.after(load.waiting), self.fast.after(load.opened))

    def refusal(self, mode: Mode, load: Load) -> float | None:
        """Seconds after which it is worth asking again; ``None`` lets the request in."""
        waits = [
            wait_for(waiting - door.opens_at, load.finished_per_second)
            for door, waiting, counts in (
                (self.all, load.waiting, True),
                (self.fast, load.opened, mode is Mode.FAST),
            )
            if counts and door.closed
        ]
        return max(waits, default=None)


def wait_for(surplus: float, per_second: float) -> float:
    """Seconds until so many have ended, 1 to 60; with nothing ending, nobody knows, and it is 60."""
    if per_second <= 0:
        return _LONGEST_WAIT
    return min(max(surplus / per_second, _LEAST_WAIT), _LONGEST_WAIT)
