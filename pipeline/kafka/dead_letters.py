"""Dead letters: the original bytes, key and headers untouched, and the cause in headers of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog
from confluent_kafka import Message

from pipeline.errors import DecodeError, TallystreamError
from pipeline.events import Event
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Headers, Identity, Output, dead_letter_identity
from pipeline.topics import DEAD_LETTERS

log = structlog.get_logger(__name__)

PREFIX = "tallystream.error."
_LONGEST_MESSAGE = 1_000


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

    @classmethod
    def of(cls, message: Message) -> Source:
        headers = message.headers() or []
        pairs = headers.items() if isinstance(headers, dict) else headers
        return cls(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            _as_bytes(message.key()),
            _as_bytes(message.value()),
            tuple((name, _as_bytes(value) or b"") for name, value in pairs),
        )


def dead_letter(source: Source, error: TallystreamError, *, stage: str, shards: int) -> Output:
    """The record for ``dead-letters``, on the shard of the partition that it came from; says so in the log.

    Args:
        stage: the hop that could not handle it.
    """
    log.warning(
        "dead letter",
        source=f"{source.topic}[{source.partition}]@{source.offset}",
        code=error.code,
        error=error.message,
    )
    cause = {
        "code": error.code,
        "message": error.message[:_LONGEST_MESSAGE],
        "stage": stage,
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(source.offset),
        "timestamp": str(source.timestamp),
    }
    return Output(
        topic=DEAD_LETTERS,
        partition=source.partition % shards,
        key=source.key,
        value=source.value or b"",
        identities=(dead_letter_identity(source.topic, source.partition, source.offset),),
        headers=source.headers + tuple((PREFIX + name, value.encode()) for name, value in cause.items()),
    )


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
            decoded.append((source, codec.decode(source.value)))
        except DecodeError as error:
            decoded.append((source, error))
    return decoded


def dead_letter_identities(message: Message) -> Iterable[Identity]:
    """The identity of a record read back from ``dead-letters``."""
    cause = dict(Source.of(message).headers)
    try:
        yield dead_letter_identity(
            cause[PREFIX + "topic"].decode(),
            int(cause[PREFIX + "partition"]),
            int(cause[PREFIX + "offset"]),
        )
    except (KeyError, ValueError):
        return  # somebody else's record


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
