"""The plan of faults: which process is killed or paused, in which order. A pure function of its arguments."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

_STOPS_PER_KILL = 0.2
_OVERLAPPING = 0.2
_LONG = 0.5
_LONGEST_BROKER_PAUSE = 4.0
_LONGEST_DOWNTIME = 2.0


class FaultKind(StrEnum):
    """What is done to a process."""

    KILL = "kill"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Actor:
    """One process that faults can meet: its role and which of its role it is."""

    role: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.role}-{self.number}"

    @property
    def is_broker(self) -> bool:
        return self.role == "broker"


@dataclass(frozen=True, slots=True)
class Fault:
    """One step of the plan. All durations in seconds.

    Attributes:
        lasts: how long the process is paused, or a killed broker is left down.
        pause: the wait before it, after the pipeline has recovered from the fault before.
        overlaps: it does not wait for that recovery.
    """

    kind: FaultKind
    actor: Actor
    lasts: float
    pause: float
    overlaps: bool


def make_plan(
    *, seed: int, kills: int, actors: Sequence[Actor], session_timeout: float, mean_pause: float
) -> tuple[Fault, ...]:
    """So many kills over all actors evenly, and a pause of a process for every five of them.

    Half of the pauses of an agent outlast its group session, so that it wakes up after another took over;
    a broker's are shorter than its clients' patience.

    Args:
        session_timeout: of the agents' consumer groups, in seconds.
        mean_pause: of the exponentially distributed waits between faults, in seconds; capped at three times it.
    """
    chance = random.Random(f"plan {seed}")
    kinds = [FaultKind.KILL] * kills + [FaultKind.STOP] * round(kills * _STOPS_PER_KILL)
    chance.shuffle(kinds)
    decks = {kind: _deck(chance, actors) for kind in FaultKind}
    faults: list[Fault] = []
    for kind in kinds:
        actor = next(decks[kind])
        pause = min(chance.expovariate(1 / mean_pause), 3 * mean_pause) if mean_pause > 0 else 0.0
        lasts = _duration(chance, kind, actor, session_timeout)
        faults.append(
            Fault(kind, actor, lasts, pause, overlaps=bool(faults) and chance.random() < _OVERLAPPING)
        )
    return tuple(faults)


def _deck(chance: random.Random, actors: Sequence[Actor]) -> Iterator[Actor]:
    """Every actor once before any comes again."""
    while True:
        yield from chance.sample(actors, len(actors))


def _duration(chance: random.Random, kind: FaultKind, actor: Actor, session_timeout: float) -> float:
    if kind is FaultKind.KILL:
        return chance.uniform(0.0, _LONGEST_DOWNTIME) if actor.is_broker else 0.0
    if actor.is_broker:
        return chance.uniform(1.0, _LONGEST_BROKER_PAUSE)
    if chance.random() < _LONG:
        return session_timeout * chance.uniform(1.1, 1.4)
    return chance.uniform(0.5, session_timeout / 2)
