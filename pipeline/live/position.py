"""How far a reader of one task has come: the id of every event that it is told."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pipeline.errors import InvalidRequestError
from pipeline.topics import DELIVERIES, PROGRESS, RESULTS, SAMPLES

_TOPICS: Final = (SAMPLES, RESULTS, DELIVERIES, PROGRESS)
_LETTERS: Final = "srdp"
_PART: Final = re.compile(r"([srdp])(0|[1-9][0-9]{0,18})", re.ASCII)
_LONGEST: Final = 100


class Position(NamedTuple):
    """The offset of the last record told of each topic, -1 before the first.

    All records of a task lie on its shard, one partition of each topic, so that four offsets say exactly what a
    reader has, in whatever order the topics were read, and mean the same at every gateway. The text of one is like
    ``s45.r7.p981``; a topic of which nothing was told is left out.
    """

    samples: int = -1
    results: int = -1
    deliveries: int = -1
    progress: int = -1

    @classmethod
    def parse(cls, text: str) -> Position:
        """
        Raises:
            InvalidRequestError: it is no id of ours.
        """
        offsets = [-1] * len(_TOPICS)
        for part in text.split(".") if 0 < len(text) <= _LONGEST else [""]:
            found = _PART.fullmatch(part)
            if found is None or offsets[_LETTERS.index(found[1])] >= 0:
                raise InvalidRequestError(
                    "must be the id of an event of this task, as s45.r7", field="Last-Event-ID"
                )
            offsets[_LETTERS.index(found[1])] = int(found[2])
        return cls(*offsets)

    def __str__(self) -> str:
        return ".".join(
            f"{letter}{offset}" for letter, offset in zip(_LETTERS, self, strict=True) if offset >= 0
        )

    def has(self, topic: str, offset: int) -> bool:
        """Whether the reader was told of this record, or of a later one of its topic."""
        return topic in _TOPICS and offset <= self[_TOPICS.index(topic)]

    def past(self, topic: str, offset: int) -> Position:
        """The position of who was told of this record too."""
        place = _TOPICS.index(topic)
        offsets = list(self)
        offsets[place] = max(offset, offsets[place])
        return Position(*offsets)
