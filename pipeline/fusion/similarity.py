"""How alike two texts are, by their words: what is always there, and needs no model.

The F1 of shared words, counted as often as they stand in both (ROUGE-1, Lin, 2004): symmetric, 1 for the same
words, 0 for none in common. Chinese is written without spaces, so each of its characters is a word.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")
MAX_COMPARED = 20_000
"""Characters of a text that are compared, so that a pair costs little whatever a model says."""


def token_overlap(left: str, right: str) -> float:
    """In [0, 1]; two texts without words are alike when they are equal."""
    ours, theirs = _words(left), _words(right)
    total = ours.total() + theirs.total()
    if not total:
        return float(left.strip() == right.strip())
    return 2 * (ours & theirs).total() / total


# A text is compared with every other one.
@lru_cache(maxsize=256)
def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text[:MAX_COMPARED].casefold()))
