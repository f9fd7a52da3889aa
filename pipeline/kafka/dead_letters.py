"""Dead letters: the original bytes, key and headers untouched, and the cause in headers of ours.

A record that was replayed and fails again gets one new set of these headers, never a second one beside
the first: it keeps the time when it was first seen, and its attempts add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from confluent_kafka import Message

from pipeline.errors import DecodeError, RecordTooLargeError, TallystreamError
from pipeline.events import Event
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Headers, Identity, Output, dead_letter_identity, size_of
from pipeline.topics import DEAD_LETTERS, LARGEST_SAMPLE, REQUESTS, SAMPLES, largest_record

log = structlog.get_logger(__name__)

PREFIX = "tallystream.error."
REPLAYED = "tallystream.replayed."
"""Headers of a record that was sent again: from where; of a dead letter also its attempts and when first seen."""

_LONGEST_MESSAGE, _LONGEST_NAME = 1_000, 250
_MOST_ATTEMPTS = 10**9
_OWN_HEADERS = 8_192
"""Upper bound of all headers that a cause adds, in bytes."""
_CUT_KEY, _CUT_VALUE = 1_024, 65_536


@dataclass(frozen=True, slots=True)
class Source:
    """A consumed record as it came: where from, when (broker's ms), and its bytes."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def origin(self) -> str:
        """Its place, as people read it."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @classmethod
    def of(cls, message: Message) -> Source:
        headers: Any = message.headers() or []
        pairs = headers.items() if isinstance(headers, dict) else headers  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return cls(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            _as_bytes(message.key()),
            _as_bytes(message.value()),
            tuple((name, _as_bytes(value)) for name, value in pairs),  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        )


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a record is a dead letter, as the headers of the letter say it.

    Attributes:
        stage: the hop that could not handle it.
        attempts: how often it was tried, all replays together.
        topic, partition, offset, timestamp: where it came from, and the broker's time of it there (ms).
        first_seen: broker's ms of the record before any replay.
        whole_size: bytes of a record that no dead letter can hold; the letter has the beginning only. 0: it is whole.
    """

    code: str
    message: str
    stage: str
    attempts: int
    topic: str
    partition: int
    offset: int
    timestamp: int
    first_seen: int
    whole_size: int = 0

    def headers(self) -> Headers:
        """One header a field, as text."""
        fields = {name: value for name, value in asdict(self).items() if name != "whole_size" or value}
        return tuple((PREFIX + name, str(value).encode("utf-8", "replace")) for name, value in fields.items())

    @classmethod
    def of(cls, headers: Headers) -> Cause | None:
        """Read a letter's cause; ``None`` for somebody else's record, which names no origin."""
        try:
            texts = {
                name.removeprefix(PREFIX): (value or b"").decode()
                for name, value in headers
                if name.startswith(PREFIX)
            }
            timestamp = int(texts.get("timestamp", -1))
            return cls(
                texts.get("code", ""),
                texts.get("message", ""),
                texts.get("stage", ""),
                int(texts.get("attempts", 1)),
                texts["topic"],
                int(texts["partition"]),
                int(texts["offset"]),
                timestamp,
                int(texts.get("first_seen", timestamp)),
                int(texts.get("whole_size", 0)),
            )
        except (KeyError, ValueError):
            return None


def dead_letter(
    source: Source, error: TallystreamError, *, stage: str, shards: int, attempts: int = 1
) -> Output:
    """The record for ``dead-letters``, on the shard of the partition that it came from; says so in the log.

    Args:
        stage: the hop that could not handle it.
        attempts: how often it was tried there.
    """
    log.warning(
        "dead letter",
        source=source.origin,
        code=error.code,
        error=error.message,
    )
    earlier, first_seen = history(source)
    headers = without_ours(source.headers)
    size = size_of(source.key, source.value, headers)
    cut = size > largest_record(DEAD_LETTERS) - _OWN_HEADERS
    cause = Cause(
        code=error.code,
        message=error.message[:_LONGEST_MESSAGE],
        stage=stage[:_LONGEST_NAME],
        attempts=min(earlier + attempts, _MOST_ATTEMPTS),
        topic=source.topic[:_LONGEST_NAME],
        partition=source.partition,
        offset=source.offset,
        timestamp=source.timestamp,
        first_seen=first_seen,
        whole_size=size if cut else 0,
    )
    return Output(
        topic=DEAD_LETTERS,
        partition=source.partition % shards,
        key=source.key[:_CUT_KEY] if cut and source.key else source.key,
        value=source.value[:_CUT_VALUE] if cut and source.value else source.value,
        identities=(dead_letter_identity(source.topic, source.partition, source.offset),),
        headers=(*(() if cut else headers), *cause.headers()),
    )


def history(source: Source) -> tuple[int, int]:
    """Attempts before this life of a record, and when it was first seen (ms).

    A copy made by hand may carry a letter's own headers; what can not be true is not believed.
    """
    attempts, first_seen = 0, source.timestamp
    for name, value in source.headers:
        field = name.removeprefix(PREFIX).removeprefix(REPLAYED)
        if field == name or not (value or b"").isdigit() or len(value or b"") > 18:
            continue
        if field == "attempts":
            attempts = min(int(value or 0), _MOST_ATTEMPTS)
        elif field == "first_seen" and 0 < int(value or 0) <= source.timestamp:
            first_seen = int(value or 0)
    return attempts, first_seen


def without_ours(headers: Headers) -> Headers:
    """The headers that the record's producer gave it."""
    return tuple(item for item in headers if not item[0].startswith((PREFIX, REPLAYED)))


def decode_record(codec: Codec, source: Source) -> Event:
    """The event of a record that is no tombstone.

    A record can be larger than its topic takes: its producer compressed it. What it leads to is not
    compressed and would fit nowhere, so it is refused; but an event on ``requests`` is let through,
    for whoever asked is told. On ``samples`` less is taken, so that 64 of them can become one result.

    Raises:
        DecodeError: the bytes are no event of ours, or too many.
        RegistryDownError: that can not be said now.
    """
    value = source.value or b""
    most = LARGEST_SAMPLE if source.topic == SAMPLES else largest_record(source.topic)
    size = len(value)
    if size > most and source.topic != REQUESTS:
        raise RecordTooLargeError(f"{size:,} bytes when unpacked; {source.topic} takes at most {most:,}")
    return codec.decode(value)


def decode_all(codec: Codec, sources: Sequence[Source]) -> list[tuple[Source, Event | TallystreamError]]:
    """Each record with its event, or with why it is none; tombstones ask for nothing and are left out.

    Raises:
        RegistryDownError: none of them can be judged now.
    """
    decoded: list[tuple[Source, Event | TallystreamError]] = []
    for source in sources:
        if source.value is None:
            continue
        try:
            decoded.append((source, decode_record(codec, source)))
        except DecodeError as error:
            decoded.append((source, error))
    return decoded


def dead_letter_identities(message: Message) -> Iterable[Identity]:
    """The identity of a record read back from ``dead-letters``."""
    cause = Cause.of(Source.of(message).headers)
    if cause is not None:
        yield dead_letter_identity(cause.topic, cause.partition, cause.offset)


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
