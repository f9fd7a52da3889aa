"""Reading dead-letters: the letters, which of them were replayed, and which a person asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.kafka.dead_letters import REPLAYED, Cause, Source
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Output, Place
from pipeline.settings import Settings
from pipeline.topics import DEAD_LETTERS

LetterPlace = tuple[int, int]
"""Partition and offset on dead-letters: the identity of a letter, and so of its replay."""

_MARK = REPLAYED + "offset"


def place_named(text: str) -> LetterPlace | None:
    """What ``Letter.id`` names; ``None`` when the text is no such name."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,18})", text, re.ASCII)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter without its bytes.

    Attributes:
        parked_at: broker's time on dead-letters, ms.
        size: bytes of the value.
        replayed_at: when it was replayed, ms; ``None``: it was not.
    """

    place: LetterPlace
    parked_at: int
    cause: Cause
    key: bytes | None
    size: int
    replayed_at: int | None = None

    @property
    def id(self) -> str:
        return f"{self.place[0]}:{self.place[1]}"

    @property
    def origin(self) -> str:
        return f"{self.cause.topic}[{self.cause.partition}]@{self.cause.offset}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are meant; what is ``None`` does not matter.

    Attributes:
        places: of these letters alone.
        topic: where the record came from.
        key: in UTF-8.
        since: parked at or after this time, ms.
        until: parked before this time, ms.
    """

    code: str | None = None
    stage: str | None = None
    topic: str | None = None
    key: str | None = None
    since: int | None = None
    until: int | None = None
    places: frozenset[LetterPlace] = frozenset()

    def takes(self, letter: Letter) -> bool:
        cause = letter.cause
        pairs = ((self.code, cause.code), (self.stage, cause.stage), (self.topic, cause.topic))
        return (
            all(wanted is None or wanted == has for wanted, has in pairs)
            and (not self.places or letter.place in self.places)
            and (self.key is None or letter.key == self.key.encode())
            and (self.since is None or letter.parked_at >= self.since)
            and (self.until is None or letter.parked_at < self.until)
        )


def mark_of(source: Source, target: Place) -> Output:
    """The record on dead-letters that says that a letter was replayed.

    It lies behind its letter on the same partition, so retention never takes it first.
    """
    to = f"{target[0]}[{target[1]}]"
    headers = ((_MARK, str(source.offset).encode()), (REPLAYED + "to", to.encode()))
    return Output(DEAD_LETTERS, source.partition, source.key, None, (), headers)


def read_records(settings: Settings, since_ms: int = 0) -> Iterator[Source]:
    """Everything on dead-letters now, each partition in order.

    Raises:
        BrokerDownError: it can not be read.
    """
    places = [(DEAD_LETTERS, shard) for shard in range(settings.shards)]
    yield from map(Source.of, read_back(settings, places, since_ms=since_ms))


def letter_of(source: Source) -> Letter | None:
    """``None`` for a mark, and for a record that is not ours."""
    cause = Cause.of(source.headers)
    if cause is None or marked_offset(source) is not None:
        return None
    place = source.partition, source.offset
    return Letter(place, source.timestamp, cause, source.key, len(source.value or b""))


def marked_offset(source: Source) -> int | None:
    """The offset of the letter that a mark marks; ``None`` when the record is no mark."""
    text = dict(source.headers).get(_MARK) or b""
    return int(text) if text.isdigit() else None


def find(settings: Settings, place: LetterPlace) -> tuple[Letter, Source] | None:
    """One letter with its bytes."""
    found: tuple[Letter, Source] | None = None
    for source in read_records(settings):
        if source.partition != place[0]:
            continue
        if source.offset == place[1] and (letter := letter_of(source)) is not None:
            found = letter, source
        elif found and marked_offset(source) == place[1]:
            found = replace(found[0], replayed_at=source.timestamp), found[1]
    return found
