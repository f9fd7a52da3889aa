"""What repeats of one text are worth: agreement is evidence only where it could have failed to come about.

A bare answer that another sample gave word for word adds 1 - p, where p is the probability of the whole text: a
model that has collapsed onto one text (p near 1) was bound to say it again, so its repeats say nothing, while a text
that the model was unsure of is worth repeating. The surest of equal texts counts whole, and so does every text with
computation steps, which show on what way it came to its answer.
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
    again = [_probability(ballot) for ballot in group]
    for place, text in enumerate(texts):
        if text not in surest or again[place] > again[surest[text]]:
            surest[text] = place
    return [1.0 if surest[text] == place else 1 - again[place] for place, text in enumerate(texts)]


def _probability(ballot: Ballot) -> float:
    """Of a bare text, that the model says it again; 0 for one with steps."""
    if ballot.sureness.right or ballot.sureness.wrong:
        return 0.0
    return ballot.sureness.tokens ** max(1, ballot.sample.completion_tokens)


def _words(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".。!！ ")
