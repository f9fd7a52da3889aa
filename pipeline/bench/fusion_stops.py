"""Early stop on replayed votes: samples drawn against the ideal of each rule, and answers against the full vote."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.bench.drawn import samples_of
from pipeline.bench.effort import Effort
from pipeline.bench.parts import Say
from pipeline.bench.replays import DISTRIBUTIONS, FULL, IDEALS, POLICIES, replayed, stop, winner
from pipeline.bench.rows import Bound, Goal, Row, single
from pipeline.fusion import EarlyStop, decided
from pipeline.settings import Settings

_DRAWN_SHARE = 15
"""Of so many votes one is stopped by the pipeline's own code, which groups and votes anew after each sample."""


def early_stop(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """A row a rule and distribution: the share of samples drawn, that against the ideal, and agreement."""
    for rule in EarlyStop:
        for name in DISTRIBUTIONS:
            say(f"early stop: {rule.value}, {name}")
            yield from _rows(rule, name, effort.replays)


def _rows(rule: EarlyStop, name: str, count: int) -> Iterable[Row]:
    policy, ideal_rule = POLICIES[rule], IDEALS[rule]
    votes = list(replayed(name, count))
    agreed = sum(winner(answers) == winner(answers[: stop(answers, ideal_rule)]) for answers in votes)
    executed = ideal = 0
    for answers in votes[: max(1, count // _DRAWN_SHARE)]:
        every = samples_of(answers)
        executed += stop(answers, lambda seen, every=every: decided(every[: len(seen)], FULL, policy))
        ideal += stop(answers, ideal_rule)
    drawn = executed / (FULL * max(1, count // _DRAWN_SHARE))
    title = f"early stop {rule.value}, {name}"
    yield single(f"{title}: samples drawn of {FULL}", 100 * drawn, "%")
    yield single(f"{title}: against its ideal", executed / ideal, "×", Goal(Bound.AT_MOST, 1.15))
    least = 1.0 if rule is EarlyStop.LOSSLESS else 0.998
    yield single(f"{title}: answers of the full vote", agreed / count, "share", Goal(Bound.AT_LEAST, least))
