"""The form by which an answer is compared: one key for all ways to write one value.

Two answers are equal when their keys are, so equality is transitive, a group is a lookup, and no answer is
ever chained to another. Each kind of notation has its own module; the first that reads the answer decides.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pipeline.fusion.calendar_time import moment_or_ratio
from pipeline.fusion.characters import plain_characters
from pipeline.fusion.choices import choice_key
from pipeline.fusion.compound import compound_key
from pipeline.fusion.evaluate import OverBudgetError, metered
from pipeline.fusion.forms import MAX_NUMERAL, Canonical, marked_number, plain_number
from pipeline.fusion.markup import cleaned, joined_thousands, unwrapped
from pipeline.fusion.programs import program_key
from pipeline.fusion.prose import prose_key
from pipeline.fusion.structures import structure

MAX_ANSWER = 4_000
"""A longer answer, if it is no number and no program, is compared as text."""

WORK = 400_000
"""What reading one answer may cost, in the units of ``evaluate``; over it the answer is compared as text."""

MAX_REMEMBERED = 256
"""Characters of an answer whose form is kept, so that the memory of all of them stays small."""

_SPACES = re.compile(r"[ \t]{2,}")
_NUMERAL = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)")


def canonical(text: str) -> Canonical:
    """The canonical form of an answer; an empty key for a blank one. Never raises, and bounded in time and memory."""
    return _remembered(text) if len(text) <= MAX_REMEMBERED else _form(text)


def _form(text: str) -> Canonical:
    return plain_number(text) or marked_number(text) or _read(text)


# A vote asks again for every answer each time a sample arrives.
_remembered = lru_cache(maxsize=4096)(_form)


def _read(text: str) -> Canonical:
    if not text.strip():
        return Canonical("")
    if (program := program_key(text)) is not None:
        return Canonical(program)
    if len(text) > MAX_ANSWER:
        return _long(text)
    # Long runs of spaces cost the patterns behind this their square.
    answer = unwrapped(_SPACES.sub(" ", plain_characters(text)))
    if (numeral := _numeral(answer)) is not None:
        return numeral
    if (choice := choice_key(answer)) is not None:
        return Canonical(choice)
    simple = cleaned(answer)
    for form in (answer, simple):
        if (moment := moment_or_ratio(form) or compound_key(form)) is not None:
            return Canonical(moment)
    try:
        with metered(WORK):
            return structure(simple) or Canonical(f"t:{prose_key(simple or text)}")
    except OverBudgetError:
        return Canonical(f"t:{prose_key(simple)}")


def _numeral(text: str) -> Canonical | None:
    if not _NUMERAL.fullmatch(text):
        return None
    bare = text.removeprefix("+").removesuffix(".")
    negative = bare.startswith("-")
    digits = bare.removeprefix("-")
    whole, _, decimals = digits.partition(".")
    sign = "-" if negative and digits.strip("0.") else ""
    return plain_number(
        f"{sign}{whole or '0'}.{decimals}" if decimals.strip("0") else f"{sign}{whole or '0'}"
    )


def _long(text: str) -> Canonical:
    if (
        len(text) <= MAX_NUMERAL
        and (numeral := _numeral(joined_thousands(text.strip()).rstrip("."))) is not None
    ):
        return numeral
    return Canonical(f"t:{' '.join(text.split())}")
