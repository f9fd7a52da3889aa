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
    return math.fsum(worths(group))


def worths(group: Sequence[Ballot]) -> list[float]:
    """What each of equal answers adds to its group, in their order; of equally sure texts the first counts whole."""
    surest: dict[str, int] = {}
    texts = [_words(ballot.sample.text) for ballot in group]
    sure = [ballot.sureness.tokens for ballot in group]
    for place, text in enumerate(texts):
        if text not in surest or sure[place] > sure[surest[text]]:
            surest[text] = place
    return [1.0 if surest[text] == place else 1 - sure[place] for place, text in enumerate(texts)]


def _words(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".。!！ ")
