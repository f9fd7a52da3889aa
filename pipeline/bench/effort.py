"""How long and how often things are measured."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Effort:
    """Durations in seconds.

    Attributes:
        repeats: rounds over all contenders of a comparison, one after another in each round.
        warm: load before anything is measured.
        steady: load at a fixed rate.
        saturated: load that never lets a contender wait; the first third is not counted.
        in_flight: requests without an answer that saturate a contender.
        lone: requests of an idle pipeline, each alone.
        shards: that growth is measured at.
        backlogs: requests that wait when the pipeline starts.
        backlog_limit: after which a backlog is no longer followed.
        kills: of each role.
        listeners: that are open at one gateway.
        questions: that Abacus answers, 15 samples each.
        replays: votes of each distribution that rules of early stop are tried on.
        answers: read for the speed of reading.
        votes: of 40 samples, decided one after another.
        engine_models: what the engine is measured on.
        engine_tasks: answers that are drawn in a comparison of engines.
        simulated: seconds of an engine's life that are played through, not waited for.
    """

    repeats: int = 3
    warm: float = 2.0
    steady: float = 8.0
    saturated: float = 7.0
    in_flight: int = 2_000
    lone: int = 20
    shards: tuple[int, ...] = (1, 2, 4)
    backlogs: tuple[int, ...] = (1_000, 50_000)
    backlog_limit: float = 120.0
    kills: int = 5
    listeners: int = 1_000
    questions: int = 600
    replays: int = 1_500
    answers: int = 40_000
    votes: int = 300
    engine_models: tuple[str, ...] = ("model", "tiny")
    engine_tasks: int = 64
    simulated: float = 900.0


def full(repeats: int | None = None) -> Effort:
    return Effort() if repeats is None else replace(Effort(), repeats=repeats)


def quick(repeats: int | None = None) -> Effort:
    """Everything tiny: shows that it runs, measures nothing worth telling."""
    return Effort(
        repeats=repeats or 1,
        warm=0.2,
        steady=1.0,
        saturated=0.6,
        in_flight=50,
        lone=2,
        shards=(1, 2),
        backlogs=(20, 60),
        backlog_limit=30.0,
        kills=1,
        listeners=20,
        questions=6,
        replays=5,
        answers=400,
        votes=3,
        engine_models=("tiny",),
        engine_tasks=2,
        simulated=60.0,
    )
