"""Abacus' questions and chains: sums of a few terms, worked out one operation a line. Pure; randomness is passed in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

NOISE: Final = 0.2
"""Share of step results of the training chains that are wrong on purpose."""
OFFSETS: Final = (-10, -2, -1, 1, 2, 10)
"""By how much a wrong result is off, each alike."""
ANSWER_MARK: Final = "#### "

_TOKEN: Final = re.compile(r"\d+|[-+*]")
_MOST: Final = 199


@dataclass(frozen=True, slots=True)
class Problem:
    """A sum of three or four terms with at most one product, e.g. ``17+4*6-9``; ``answer`` is the true value."""

    expression: str
    answer: int

    @property
    def question(self) -> str:
        """As a person asks it."""
        return f"What is {_TOKEN.sub(lambda match: _spaced(match.group()), self.expression)}?"


def draw_problem(random: Random) -> Problem:
    """A problem whose intermediate values lie in 0 … 199."""
    while True:
        terms = [str(random.randint(2, 12)) for _ in range(random.randint(3, 4))]
        if random.random() < 0.5:
            place = random.randrange(len(terms))
            terms[place] = f"{random.randint(2, 9)}*{random.randint(2, 9)}"
        expression = terms[0] + "".join(f"{random.choice('+-')}{term}" for term in terms[1:])
        values = [step.value for step in steps(expression)]
        if all(0 <= value <= _MOST for value in values):
            return Problem(expression, values[-1])


def draw_chain(problem: Problem, random: Random, noise: float) -> str:
    """The problem worked out, each result wrong with probability ``noise``; what follows a wrong one builds on it."""

    def result(value: int) -> int:
        if random.random() >= noise:
            return value
        # No wrong result is the first negative one of a chain; behind a negative one any may stand.
        return random.choice([value + offset for offset in OFFSETS if value < 0 or value + offset >= 0])

    worked = list(_worked(problem.expression, result))
    lines = [f"{step.left}{step.operator}{step.right}={step.value}" for step in worked]
    return "\n".join([*lines, f"{ANSWER_MARK}{worked[-1].value}"])


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a chain: ``left operator right = value``."""

    left: int
    operator: str
    right: int
    value: int


def steps(expression: str) -> Sequence[Operation]:
    """The operations in the order in which a chain does them: the product first, then from left to right."""
    return tuple(_worked(expression, lambda value: value))


def _worked(expression: str, result: Callable[[int], int]) -> Iterator[Operation]:
    tokens = _TOKEN.findall(expression)
    while len(tokens) > 1:
        place = tokens.index("*") if "*" in tokens else 1
        left, operator, right = int(tokens[place - 1]), tokens[place], int(tokens[place + 1])
        true = {"+": left + right, "-": left - right, "*": left * right}[operator]
        done = Operation(left, operator, right, result(true))
        yield done
        tokens[place - 1 : place + 2] = [str(done.value)]


def _spaced(token: str) -> str:
    return token if token.isdigit() else f" {token} "
