"""What an audit found wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

EXAMPLES = 5


class Wrong(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    STUCK = "stuck"
    WRONG_VOTE = "wrong_vote"
    ILLEGAL = "illegal"
    AHEAD = "ahead"
    UNEXPLAINED_REPEAT = "unexplained_repeat"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and of what."""

    wrong: Wrong
    what: str
    id: str


@dataclass(frozen=True, slots=True)
class Summary:
    """All findings that say the same."""

    wrong: Wrong
    what: str
    count: int
    examples: Sequence[str]


def summarised(findings: Iterable[Finding]) -> list[Summary]:
    """By kind and sentence, each with its first examples."""
    ids: dict[tuple[Wrong, str], list[str]] = {}
    for finding in findings:
        ids.setdefault((finding.wrong, finding.what), []).append(finding.id)
    return [
        Summary(wrong, what, len(found), found[:EXAMPLES])
        for (wrong, what), found in sorted(
            ids.items(), key=lambda item: (list(Wrong).index(item[0][0]), item[0][1])
        )
    ]
