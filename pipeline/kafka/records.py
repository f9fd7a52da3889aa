"""What is written to Kafka, and how it is recognised again."""

from __future__ import annotations

from dataclasses import dataclass

Identity = tuple[str | int, ...]
"""Names one thing for ever, e.g. ``("sample", request_id, run, index)``; equal on every repetition."""

Place = tuple[str, int]
"""A topic and a partition."""

Headers = tuple[tuple[str, bytes], ...]


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
    value: bytes
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


def result_identity(request_id: str, run: int, revision: int) -> Identity:
    return ("result", request_id, run, revision)


def dead_letter_identity(topic: str, partition: int, offset: int) -> Identity:
    return ("dead-letter", topic, partition, offset)
