"""What a chaos run is asked for, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.chaos.faults import Injected
from pipeline.chaos.guarantees import Broken
from pipeline.chaos.plan import FaultKind
from pipeline.chaos.watch import Watch


@dataclass(frozen=True, slots=True)
class Options:
    """What to run; durations in seconds.

    Attributes:
        pause: mean of the waits between a recovery and the next fault.
        calm: how long the pipeline runs before the first fault.
        stuck_after: without any movement for so long at the end, what is not finished is stuck.
        logs: where agents' logs are kept; a folder of this run if ``None``.
    """

    kills: int
    seed: int
    workers: int = 2
    brokers: int = 1
    shards: int = 2
    rate: float = 10.0
    pause: float = 1.0
    calm: float = 20.0
    stuck_after: float = 60.0
    broken: Broken | None = None
    logs: Path | None = None


class Progress:
    """Where a run stands, for whoever shows it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.stage = "starting"
        self.watch: Watch | None = None
        self.faults: Sequence[Injected] = ()

    def __str__(self) -> str:
        kills = sum(made.fault.kind is FaultKind.KILL for made in self.faults)
        asked = len(self.watch.asked) if self.watch else 0
        finals = len(self.watch.finals) if self.watch else 0
        last = (
            f", last: {self.faults[-1].fault.kind} {self.faults[-1].fault.actor.name}" if self.faults else ""
        )
        return f"{self.stage}: {kills}/{self._options.kills} kills, {asked} requests, {finals} results{last}"
