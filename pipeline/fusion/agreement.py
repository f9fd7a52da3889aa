"""Which of several programs is best, from which tests each passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, count


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """One sample's program and its verdict.

    Attributes:
        index: of the sample; unique.
        code: the program.
        outcomes: for every test whether it held; the same tests in the same order for all programs. Empty when none
            was reached, which counts as none held.
    """

    index: int
    code: str
    outcomes: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ProgramStanding:
    """A program in the ranking.

    Attributes:
        index: of the sample.
        passed: tests that held.
        group: indices of all programs that pass exactly the same tests, ascending, this one included.
        score: what it is ranked by first.
    """

    index: int
    passed: int
    group: tuple[int, ...]
    score: int


def rank_by_tests(programs: Sequence[CheckedProgram]) -> tuple[ProgramStanding, ...]:
    """Best first, by given tests: most tests passed, then most programs that pass the same, shortest, lowest index.

    Raises:
        ValueError: an index twice, or outcomes of different numbers of tests.
    """
    return _rank(programs, lambda passed, members: passed)


def rank_by_agreement(programs: Sequence[CheckedProgram]) -> tuple[ProgramStanding, ...]:
    """Best first, by tests that the samples wrote themselves, any of which may be wrong.

    Programs that pass the same tests form a consensus set; its score is the number of its programs times the number
    of its tests (CodeT, Chen et al. 2022, arXiv 2207.10397, dual execution agreement). Then as ``rank_by_tests``.

    Raises:
        ValueError: an index twice, or outcomes of different numbers of tests.
    """
    return _rank(programs, lambda passed, members: passed * members)


def _rank(
    programs: Sequence[CheckedProgram], score: Callable[[int, int], int]
) -> tuple[ProgramStanding, ...]:
    if len({program.index for program in programs}) != len(programs):
        raise ValueError("an index stands for two programs")
    totals = {len(program.outcomes) for program in programs} - {0}
    if len(totals) > 1:
        raise ValueError("programs were checked against different numbers of tests")
    groups: dict[frozenset[int], list[int]] = defaultdict(list)
    held = {program.index: frozenset(compress(count(), program.outcomes)) for program in programs}
    for program in programs:
        groups[held[program.index]].append(program.index)

    def standing(program: CheckedProgram) -> ProgramStanding:
        group, passed = groups[held[program.index]], len(held[program.index])
        return ProgramStanding(program.index, passed, tuple(sorted(group)), score(passed, len(group)))

    ranked = sorted(
        ((standing(program), len(program.code)) for program in programs),
        key=lambda item: (-item[0].score, -item[0].passed, -len(item[0].group), item[1], item[0].index),
    )
    return tuple(item for item, _ in ranked)
