"""The question that is asked back when no answer is clear: made of what the candidates differ in, by rule alone."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.events import Vote
from pipeline.language import Language

MOST_NAMED = 4
"""Candidates in a question; a person chooses between few."""
LONGEST_NAMED = 120
"""Characters of a candidate."""


def clarifying_question(votes: Sequence[Vote], language: Language) -> str:
    """Ask which of the candidates is meant, best first; with one candidate, whether it is.

    The same votes give the same question. Candidates that begin alike are shown from where they differ.
    """
    named = _distinct([" ".join(vote.answer.split()) for vote in votes[:MOST_NAMED]])
    more = len(votes) - len(named)
    if language is Language.CHINESE:
        return _chinese(named, more)
    return _english(named, more)


def _english(named: Sequence[str], more: int) -> str:
    if len(named) == 1:
        return (
            f"The best answer found, {named[0]}, is not sure enough. Can you say more exactly what is asked?"
        )
    listed = f"{', '.join(named[:-1])} or {named[-1]}"
    others = f" ({more} more differ as well)" if more > 0 else ""
    return (
        f"The question can be read in different ways: is the answer {listed}{others}? "
        "Can you say more exactly what is asked?"
    )


def _chinese(named: Sequence[str], more: int) -> str:
    if len(named) == 1:
        return f"目前最好的答案是{named[0]}，但把握不足。能否把问题说得更具体一些？"
    listed = f"{'、'.join(named[:-1])}还是{named[-1]}"
    others = f"（另有{more}个不同的答案）" if more > 0 else ""
    return f"这个问题可能有不同的理解：答案是{listed}{others}？能否把问题说得更具体一些？"


def _distinct(answers: Sequence[str]) -> list[str]:
    """Short forms that still differ from each other."""
    alike = _shared_beginning(answers) if len(answers) > 1 else 0
    start = max(0, alike - LONGEST_NAMED // 2) if alike >= LONGEST_NAMED else 0
    return [("…" if start else "") + _cut(answer[start:]) for answer in answers]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAMED else f"{text[: LONGEST_NAMED - 1]}…"


def _shared_beginning(answers: Sequence[str]) -> int:
    for place, characters in enumerate(zip(*answers, strict=False)):
        if len(set(characters)) > 1:
            return place
    return min(map(len, answers))
