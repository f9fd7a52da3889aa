"""Whether two answers say the same."""

from __future__ import annotations

from pipeline.fusion.canonical import canonical


def equivalent(a: str, b: str) -> bool:
    """Whether two answers are equal; symmetric, and reflexive for every answer that is not blank.

    Values must be the same, and so must units unless one has none. A blank text is no answer and equals nothing.
    """
    first, second = canonical(a), canonical(b)
    if not first.key or first.key != second.key:
        return False
    return first.unit == second.unit or not first.unit or not second.unit
