"""Explicit computation steps of a text, each checked by exact arithmetic: 3 × 4 = 12, 20% of 50 = 10, 8加5等于13.

A step is one equals sign between two arithmetic terms of which at least one computes something; of a chain
(3 + 4 = 7 = 14 / 2) every sign is a step. What can not be read for sure is no step: a term with a variable, a
bracket that is not closed, a power too large. Values are fractions from the grammar in ``algebra``; nothing is
ever eval'ed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from pipeline.fusion.algebra import NotAlgebraError, Num, Op, parse, symbols
from pipeline.fusion.evaluate import OverBudgetError, UnboundedError, constant, metered
from pipeline.fusion.forms import number_key
from pipeline.fusion.step_notation import APPROXIMATELY, UNIT, plain_arithmetic

LONGEST_TEXT = 40_000
"""Characters. Of a longer text only the end is read, as for its answer."""
LONGEST_TERM = 200
MAX_STEPS = 100
WORK = 400_000
"""What checking one text may cost, in the units of ``evaluate``: some tens of milliseconds at worst."""

_NUMBER = r"(?:\d++ ++\d++/\d++|\d++(?:\.\d++)?+|\.\d++)"
_AFTER = rf"(?:\s*+%|!(?=\s*+[-+*/^=)])|{UNIT}\d*+;)*+"
_OPERAND = rf"[-+]?+(?:\\sqrt\s*+)?+(?:\(\s*+[-+]?+(?:\\sqrt\s*+)?+)*+{_NUMBER}{_AFTER}(?:\s*+\){_AFTER})*+"
_TERM = rf"{_OPERAND}(?:\s*+(?:\*\*|[-+*/^])\s*+{_OPERAND}|(?<=\))\s*+(?=\(){_OPERAND})*+"
_CHAIN = re.compile(rf"{_TERM}(?:\s*+[={APPROXIMATELY}]\s*+{_TERM})++")
_EQUALS = re.compile(rf"\s*([={APPROXIMATELY}])\s*")
_UNIT = re.compile(rf"{UNIT}(\d*);")
_COMPUTES = re.compile(r"[-+*/^!]|\\sqrt")
_UNFINISHED = re.compile(r"\s*[*/^+({\[\\]|\s*-\s*[\w(\\]|[A-Za-z_]|\s[a-zA-Z](?![A-Za-z])")
_GLUED = re.compile(r"[A-Za-z0-9_.^]\Z|\d[,:]\Z")
_NUMERAL = re.compile(r"-?\d+(?:\.(\d+))?%?")


@dataclass(frozen=True, slots=True)
class Step:
    """One equality of a text.

    Attributes:
        left, right: as read, in plain notation.
        value: of the left side, exact, or to 30 digits where it is irrational.
        result: of the right side.
        holds: the two are the same, up to the rounding that the right side shows.
    """

    left: str
    right: str
    value: Fraction
    result: Fraction
    holds: bool

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What it computes with, without order: 3 × 4 and 4 × 3 are one derivation."""
        computed = self.left if _COMPUTES.search(self.left.lstrip("-+")) else self.right
        return tuple(sorted(re.findall(r"\d+(?:\.\d+)?|[-+*/^%!]", computed)))

    @property
    def mentioned(self) -> frozenset[str]:
        """The keys of the numbers that stand in it."""
        numerals = re.findall(r"\d+(?:\.\d+)?", f"{self.left} {self.right}")
        return frozenset(number_key(Fraction(each)) for each in numerals)


@lru_cache(maxsize=1024)
def computation_steps(text: str) -> tuple[Step, ...]:
    """The steps of a text in order, at most ``MAX_STEPS``. Never raises; bounded in time and memory."""
    plain = plain_arithmetic(text[-LONGEST_TEXT:])
    found: list[Step] = []
    try:
        with metered(WORK):
            for chain in _CHAIN.finditer(plain):
                found += _steps(chain, plain)
                if len(found) >= MAX_STEPS:
                    break
    except OverBudgetError:
        pass
    return tuple(found[:MAX_STEPS])


def _steps(chain: re.Match[str], plain: str) -> list[Step]:
    if _begins_inside(plain, chain.start()):
        return []
    pieces = _EQUALS.split(chain.group())
    terms, signs = pieces[::2], pieces[1::2]
    if _UNFINISHED.match(plain, chain.end()):
        terms.pop()
    found: list[Step] = []
    for place in range(len(terms) - 1):
        left, right = _balanced(terms[place], "("), _balanced(terms[place + 1], ")")
        if (step := _step(left, right, rounded=signs[place] != "=")) is not None:
            found.append(step)
    return found


def _begins_inside(plain: str, start: int) -> bool:
    """Whether the term goes on to the left of where it could be read: x + [3 + 4 = 7], f[(3) = 4]."""
    if start > 0 and _GLUED.search(plain, max(0, start - 2), start):
        return True
    before = plain[max(0, start - 200) : start].rpartition("\n")[2].rstrip()
    return before.endswith(("+", "-", "*", "/", "^", ")", "\\sqrt"))


def _balanced(term: str, spare: str) -> str:
    """Without the brackets of the sentence around it, which open before a chain or close after it."""
    term = term.strip()
    while term.count("(") > term.count(")") and spare == "(" and term.startswith("("):
        term = term[1:].strip()
    while term.count(")") > term.count("(") and spare == ")" and term.endswith(")"):
        term = term[:-1].strip()
    return term


def _step(left: str, right: str, *, rounded: bool) -> Step | None:
    units = set(_UNIT.findall(left)) | set(_UNIT.findall(right))
    left, right = _UNIT.sub("", left).strip(), _UNIT.sub("", right).strip()
    if not (_COMPUTES.search(left.lstrip("-+")) or _COMPUTES.search(right.lstrip("-+"))):
        return None
    value, result = _value(left), _value(right)
    if value is None or result is None:
        return None
    holds = _same(value, result, right, rounded=rounded)
    if not holds and "%" in right and "%" not in left:
        # 3/12 * 100 = 25%: the hundred was multiplied already.
        holds = _same(value, result * 100, right, rounded=rounded)
    if not holds and (len(units) > 1 or _adds_percent(left)):
        # It may convert, or take the percentage of what stands before it: not held against the text.
        return None
    return Step(left, right, value, result, holds)


def _value(term: str) -> Fraction | None:
    if len(term) > LONGEST_TERM:
        return None
    try:
        tree = parse(term)
        if symbols(tree):
            return None
        # Most terms are one number, and the evaluator is for trees.
        value = tree.value if isinstance(tree, Num) else constant(tree)
        return value if isinstance(value, Fraction) else Fraction(value)
    except (NotAlgebraError, UnboundedError, ValueError):
        return None


def _same(value: Fraction, result: Fraction, written: str, *, rounded: bool) -> bool:
    if value == result:
        return True
    numeral = _NUMERAL.fullmatch(written)
    places = 0 if numeral is None or numeral.group(1) is None else len(numeral.group(1))
    if numeral is None or not (rounded or places >= 2):
        return False
    # Rounded or cut: less than one unit of the last place that is written.
    places += 2 * written.endswith("%") * (abs(result) <= 1)
    return abs(value - result) < Fraction(1, 10**places)


def _adds_percent(term: str) -> bool:
    try:
        return _mixes(parse(term))
    except NotAlgebraError:
        return False


def _mixes(tree: object) -> bool:
    if not isinstance(tree, Op):
        return False
    kinds = {
        isinstance(_bare(part), Op) and getattr(_bare(part), "name", "") == "percent" for part in tree.args
    }
    return (tree.name == "add" and len(kinds) > 1) or any(_mixes(part) for part in tree.args)


def _bare(part: object) -> object:
    return part.args[0] if isinstance(part, Op) and part.name == "neg" else part
