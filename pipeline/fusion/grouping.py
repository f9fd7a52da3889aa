"""Groups of equal answers, independent of order.

Answers group by canonical key and unit. A value with a unit also equals the bare value, which is not
transitive (5 cm = 5 = 5 km, yet 5 cm is not 5 km), so bare values follow a rule of the whole set: they
join the unit when all the others that hold this value agree on one unit, and stand apart when units differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.fusion.ballots import Ballot


@dataclass(frozen=True, slots=True)
class Family:
    """All ballots with one value, split by unit; the empty unit holds the bare ones."""

    key: str
    units: tuple[tuple[str, tuple[Ballot, ...]], ...]

    @property
    def groups(self) -> tuple[tuple[Ballot, ...], ...]:
        named = [unit for unit, _ in self.units if unit]
        if len(named) <= 1:
            return (in_order(ballot for _, members in self.units for ballot in members),)
        return tuple(members for _, members in self.units)


def families(ballots: Sequence[Ballot]) -> tuple[Family, ...]:
    """The families of the ballots that vote, in order of key."""
    sorted_out: dict[str, dict[str, list[Ballot]]] = {}
    for ballot in ballots:
        if ballot.form is not None:
            sorted_out.setdefault(ballot.form.key, {}).setdefault(ballot.form.unit, []).append(ballot)
    return tuple(
        Family(key, tuple((unit, in_order(units[unit])) for unit in sorted(units)))
        for key, units in sorted(sorted_out.items())
    )


def in_order(ballots: Iterable[Ballot]) -> tuple[Ballot, ...]:
    """Ballots by sample index."""
    return tuple(sorted(ballots, key=lambda ballot: ballot.sample.sample_index))


def wordings(group: Sequence[Ballot]) -> list[tuple[str, int]]:
    """How a group's answer is written and how often, the wording that speaks for it first.

    The most common one, then the shortest, then the first by alphabet.
    """
    counts: dict[str, int] = {}
    for ballot in group:
        if ballot.answer is not None:
            counts[ballot.answer] = counts.get(ballot.answer, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], len(item[0]), item[0]))
