"""Records between a group's committed offset and the first one that its consumer hands over.

Faust drops what it has fetched when a rebalance ends in the middle of it, and goes on behind it: the missing
offsets then count as a gap, as transaction markers leave them, and are acknowledged with the next record
(``Consumer._add_gap``). Seen after a kill: 92 records passed over in one restart. So an owner of a partition
asks the group what is committed, which is where it has to begin, and reads for itself what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import structlog
from confluent_kafka import TopicPartition

from pipeline.kafka.clients import assigned_consumer, patiently
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.read_back import read_range
from pipeline.kafka.records import Place
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_LOT = 500
_CALL_TIMEOUT = 5.0


def passed_over(settings: Settings, group: str, place: Place, first: int | None) -> Iterator[list[Source]]:
    """Read what is committed to no one and was not handed over, some hundred records at a time. Blocking.

    Args:
        group: whose committed offset counts.
        first: the offset of the first record that was handed over; ``None`` when none was: up to the end then.

    Raises:
        BrokerDownError: Kafka can not be reached; nothing is known then.
    """
    start = _committed(settings, group, place)
    if first is not None and first <= start:
        return
    records = (Source.of(message) for message in read_range(settings, place, start, first))
    while lot := list(islice(records, _LOT)):
        log.warning("records were passed over", partition=place, count=len(lot), first=lot[0].offset)
        yield lot


def _committed(settings: Settings, group: str, place: Place) -> int:
    """Where an owner has to begin: the committed offset, or the beginning of the partition."""
    consumer = assigned_consumer(settings, group_id=group)
    try:
        wanted = TopicPartition(*place)
        (found,) = patiently(lambda: consumer.committed([wanted], timeout=_CALL_TIMEOUT))
        if found.offset >= 0:
            return found.offset
        return patiently(lambda: consumer.get_watermark_offsets(wanted, timeout=_CALL_TIMEOUT))[0]
    finally:
        consumer.close()
