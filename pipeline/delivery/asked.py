"""What people ask of deliveries: records on ``deliveries`` beside the agent's own, told apart by a header.

The record is the state that is asked for, so it counts whether the agent hears of it while it runs (here)
or reads it back when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from confluent_kafka import Message, TopicPartition

from pipeline.kafka.clients import assigned_consumer, poll_many
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Headers
from pipeline.settings import Settings
from pipeline.topics import DELIVERIES

_MARK = "tallystream.delivery.asked"
ASKED: Headers = ((_MARK, b"1"),)
"""Of a record that a command wrote."""
_AT_ONCE = 500

log = structlog.get_logger(__name__)


class Asked:
    """Follows some shards of ``deliveries`` behind what was read back. For one thread."""

    def __init__(self, settings: Settings) -> None:
        self._consumer = assigned_consumer(
            settings,
            enable_partition_eof=False,
            fetch_wait_max_ms=500,
            queued_min_messages=64,
            queued_max_messages_kbytes=16_384,
        )

    def follow(self, starts: Mapping[int, int]) -> None:
        """Take up these shards, each from its offset on, and leave all others."""
        self._consumer.assign([TopicPartition(DELIVERIES, shard, start) for shard, start in starts.items()])

    def poll(self) -> list[Message]:
        """What was asked meanwhile; does not wait."""
        found: list[Message] = []
        for message in poll_many(self._consumer, _AT_ONCE, 0):
            if (error := message.error()) is not None:
                log.warning("consumer error", error=str(error))
            elif any(name == _MARK for name, _ in Source.of(message).headers):
                found.append(message)
        return found

    def close(self) -> None:
        self._consumer.close()
