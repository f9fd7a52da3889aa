"""What is written to Kafka, and how it is recognised again."""

from __future__ import annotations

from dataclasses import dataclass

Identity = tuple[str | int, ...]
"""Names one thing for ever, e.g. ``("sample", request_id, run, index)``; equal on every repetition."""

Place = tuple[str, int]
"""A topic and a partition."""

Headers = tuple[tuple[str, bytes | None], ...]
"""In order; a name may stand there more than once, and a value may be null, which is not empty."""


@dataclass(frozen=True, slots=True)
class Output:
    """One record to write.

    Attributes:
        identities: what the record holds; a fenced sink drops the record when all of them are already
            written. Empty: never dropped, so a repetition must be harmless to its readers.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    identities: tuple[Identity, ...] = ()
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """One task of a consumed record that needs no more work."""

    place: Place
    offset: int
    task: int


def task_identity(request_id: str, run: int, sample_index: int) -> Identity:
    return ("task", request_id, run, sample_index)


def opened_identity(request_id: str, run: int) -> Identity:
    return ("opened", request_id, run)


def content_identity(request_id: str, run: int, content: str) -> Identity:
    """Of what an opened request asks; an empty content: written by a version that did not tell."""
    return ("content", request_id, run, content)


def result_identity(request_id: str, run: int, revision: int) -> Identity:
    return ("result", request_id, run, revision)


def cancel_identity(request_id: str, run: int, at: int) -> Identity:
    """Of one order to cancel, which the broker took at this time (ms): the same order again is another one."""
    return ("cancel", request_id, run, at)


def dead_letter_identity(topic: str, partition: int, offset: int) -> Identity:
    return ("dead-letter", topic, partition, offset)


def size_of(key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
    """Upper bound of a lone record's size in bytes, as ``max.message.bytes`` counts it, uncompressed.

    A batch has 61 bytes of its own, a record at most 36 (KIP-98), a header at most 10.
    """
    around = sum(len(name.encode()) + len(text or b"") + 10 for name, text in headers)
    return 100 + len(key or b"") + len(value or b"") + around
