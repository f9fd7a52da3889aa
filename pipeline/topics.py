"""The topics, and the one rule that says where a record goes.

A request keeps its shard ``crc32(request_id) mod shards`` all the way:
``requests[priority * shards + s] -> batches.priority[s] -> samples[s] -> results[s]``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final

from pipeline.events import PRIORITIES

REQUESTS: Final = "requests"
SAMPLES: Final = "samples"
RESULTS: Final = "results"
DELIVERIES: Final = "deliveries"
CONTROL: Final = "control"
PROGRESS: Final = "progress"
TURNS: Final = "turns"
SESSIONS: Final = "sessions"
DEAD_LETTERS: Final = "dead-letters"
LANES: Final = tuple(f"batches.{priority}" for priority in range(PRIORITIES))

READ_BY: Final = {
    "batcher": (REQUESTS,),
    "worker": LANES,
    "aggregator": (SAMPLES,),
    "webhook": (RESULTS,),
}
"""Which topics the group of each role commits offsets of."""

MOST_TASKS_IN_BATCH: Final = 256
"""A batch's finished tasks travel as a bitmap in the offset's metadata, which is small."""

_HOUR = 3_600_000
_DAY = 24 * _HOUR
_LARGEST_REQUEST = 1024 * 1024
_LARGEST_RECORD = 4 * 1024 * 1024
"""A result holds its request's metadata and all chains."""
LARGEST_SAMPLE: Final = 512 * 1024
"""Bytes of a value on ``samples``; the topic takes more, for records travel several in a batch."""
LARGEST_RESULT: Final = _LARGEST_RECORD - 65_536
"""Bytes of a value on ``results``; the rest is for the key and the record's own frame."""
_LARGEST_DEAD_LETTER = 5 * 1024 * 1024
"""A whole record, and the cause."""


def largest_record(topic: str) -> int:
    """The topic's ``max.message.bytes`` as it is declared."""
    return {REQUESTS: _LARGEST_REQUEST, DEAD_LETTERS: _LARGEST_DEAD_LETTER}.get(topic, _LARGEST_RECORD)


def shard_of(request_id: str, shards: int) -> int:
    """Which shard a request belongs to on every topic (zlib's crc32 of the UTF-8 id)."""
    return zlib.crc32(request_id.encode()) % shards


def request_partition(request_id: str, priority: int, shards: int) -> int:
    """The partition of ``requests`` for a request."""
    return priority * shards + shard_of(request_id, shards)


def session_key(user: str, session: str) -> bytes:
    """The key of a conversation's records; neither name holds control characters."""
    return f"{user}\0{session}".encode()


def session_shard(user: str, session: str, shards: int) -> int:
    """The partition of ``turns`` and ``sessions`` for a conversation, which is not that of its requests."""
    return zlib.crc32(session_key(user, session)) % shards


def lane_of(partition: int, shards: int) -> int:
    """The priority that a partition of ``requests`` holds."""
    return partition // shards


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic as it is declared.

    The broker's clock stamps the records (LogAppendTime), so that "since when" never depends on a
    producer's clock.
    """

    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict[str, str])


_CHANGELOG_SEGMENT = 2 * _LARGEST_RECORD


def declared_topics(shards: int, app: str) -> tuple[TopicSpec, ...]:
    """Every topic that the pipeline needs, the aggregator's changelog among them."""

    def spec(name: str, partitions: int, keep_ms: int, policy: str = "delete", **extra: str) -> TopicSpec:
        config = {
            "cleanup.policy": policy,
            "retention.ms": str(keep_ms),
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(_LARGEST_RECORD),
        }
        return TopicSpec(name, partitions, config | {key.replace("_", "."): v for key, v in extra.items()})

    changelog = {
        "cleanup.policy": "compact",
        "max.message.bytes": str(_LARGEST_RECORD),
        # An owner that takes over reads all of it, and what is closed is compacted in whole segments only.
        "segment.bytes": str(_CHANGELOG_SEGMENT),
        "segment.ms": str(_HOUR),
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": str(_HOUR),
    }
    kept = spec(SESSIONS, shards, _DAY).config
    return (
        spec(REQUESTS, PRIORITIES * shards, 7 * _DAY, max_message_bytes=str(_LARGEST_REQUEST)),
        *(spec(lane, shards, _DAY) for lane in LANES),
        spec(SAMPLES, shards, 7 * _DAY),
        spec(RESULTS, shards, _DAY, "compact,delete"),
        spec(DELIVERIES, shards, 7 * _DAY, "compact,delete"),
        spec(CONTROL, 1, _DAY),
        spec(PROGRESS, shards, _HOUR),
        spec(DEAD_LETTERS, shards, 30 * _DAY, max_message_bytes=str(_LARGEST_DEAD_LETTER)),
        spec(TURNS, shards, _DAY),
        TopicSpec(SESSIONS, shards, kept | changelog | {"cleanup.policy": "compact,delete"}),
        TopicSpec(windows_changelog(app), shards, changelog),
    )


def windows_changelog(app: str) -> str:
    """The topic in which open windows outlive their aggregator."""
    return f"{app}-aggregator-windows-changelog"
