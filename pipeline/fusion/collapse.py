"""What repeats of one text are worth: agreement is evidence only where it could have failed to come about.

A sample that says word for word what another said adds 1 - p, where p is the probability of its tokens: a model
that has collapsed onto one text (p near 1) was bound to say it again, so its repeats say nothing, while a text
that the model was unsure of is worth repeating. The surest of equal texts counts whole. Different texts with
one answer each count whole: they came to it on different ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.fusion.ballots import Ballot


def effective_votes(group: Sequence[Ballot]) -> float:
    """How many independent samples a group of equal answers is worth, from 1 to its size; 0 for no group.

    A further member never lowers it and adds at most 1, which is what early stop relies on.
    """
    same_text: dict[str, list[float]] = {}
    for ballot in group:
        same_text.setdefault(_words(ballot.sample.text), []).append(ballot.sureness.tokens)
    return math.fsum(max(found) + math.fsum(1 - p for p in found) for found in same_text.values())


def _words(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".。!！ ")
