"""Reads what given partitions hold now, from a time on, and stops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.errors import BrokerDownError
from pipeline.kafka.clients import assigned_consumer, poll_many
from pipeline.kafka.records import Place
from pipeline.settings import Settings

_CALL_TIMEOUT = 10.0
_PATIENCE = 60.0


def read_back(
    settings: Settings,
    partitions: Sequence[tuple[str, int]],
    *,
    since_ms: int = 0,
    patience: float = _PATIENCE,
) -> Iterator[Message]:
    """Yield every committed record that is in the partitions at the time of the call.

    The end is the high watermark, not the last stable offset: where another writer's transaction is
    open, the reader waits for it, so nothing that was written before the call is missed.

    Args:
        since_ms: broker time in ms; older records are skipped. 0 reads from the start.
        patience: seconds without any progress after which the broker counts as down.

    Raises:
        BrokerDownError: the partitions can not be read.
    """
    consumer = assigned_consumer(settings)
    try:
        starts = _starts(consumer, partitions, since_ms)
        ends = _ends(settings, starts)
        left = {
            (tp.topic, tp.partition): ends[tp.topic, tp.partition][1]
            for tp in starts
            if max(tp.offset, ends[tp.topic, tp.partition][0]) < ends[tp.topic, tp.partition][1]
        }
        consumer.assign([tp for tp in starts if (tp.topic, tp.partition) in left])
        yield from _read_until(consumer, left, patience)
    except Exception as error:
        raise BrokerDownError(f"can not read back {list(partitions)}: {error}") from error
    finally:
        consumer.close()


def read_range(settings: Settings, place: Place, start: int, end: int | None) -> Iterator[Message]:
    """Yield the committed records of one partition from an offset on.

    Args:
        end: the first offset that is not wanted; ``None`` stops at the last stable offset of now: what stands
            behind it, no read_committed consumer can have been handed, or passed over.

    Raises:
        BrokerDownError: the partition can not be read.
    """
    consumer = assigned_consumer(settings)
    try:
        tp = TopicPartition(*place, start)
        low, stable = consumer.get_watermark_offsets(tp, timeout=_CALL_TIMEOUT)
        tp.offset, until = max(start, low), stable if end is None else min(end, stable)
        if tp.offset < until:
            consumer.assign([tp])
            yield from _read_until(consumer, {place: until}, _PATIENCE)
    except KafkaException as error:
        raise BrokerDownError(f"can not read {place} from {start} on: {error}") from error
    finally:
        consumer.close()


def _ends(settings: Settings, partitions: Sequence[TopicPartition]) -> dict[Place, tuple[int, int]]:
    """Low and high watermarks: asked by a read_committed consumer, the broker names the last stable offset."""
    consumer = assigned_consumer(settings, isolation_level="read_uncommitted")
    try:
        return {
            (tp.topic, tp.partition): consumer.get_watermark_offsets(tp, timeout=_CALL_TIMEOUT)
            for tp in partitions
        }
    finally:
        consumer.close()


def _starts(consumer: Consumer, partitions: Sequence[tuple[str, int]], since_ms: int) -> list[TopicPartition]:
    if since_ms <= 0:
        return [
            TopicPartition(
                topic, partition, consumer.get_watermark_offsets(TopicPartition(topic, partition))[0]
            )
            for topic, partition in partitions
        ]
    wanted = [TopicPartition(topic, partition, since_ms) for topic, partition in partitions]
    found = consumer.offsets_for_times(wanted, timeout=_CALL_TIMEOUT)
    for tp in found:
        if tp.error is not None:
            raise BrokerDownError(str(tp.error))
        if tp.offset < 0:  # nothing as young as that
            tp.offset = consumer.get_watermark_offsets(tp, timeout=_CALL_TIMEOUT)[1]
    return found


def _read_until(consumer: Consumer, left: dict[tuple[str, int], int], patience: float) -> Iterator[Message]:
    moved = time.monotonic()
    while left:
        for message in poll_many(consumer, 500, 0.2):
            place = (message.topic() or "", message.partition() or 0)
            offset = message.offset() or 0
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # pyright: ignore
                if error.retriable() or not error.fatal():
                    continue
                raise BrokerDownError(str(error))
            moved = time.monotonic()
            if place not in left:
                continue
            if error is not None:
                if offset >= left[place]:
                    del left[place]
                continue
            if offset >= left[place]:
                del left[place]
                continue
            yield message
            if offset == left[place] - 1:
                del left[place]
        if time.monotonic() - moved > patience:
            raise BrokerDownError(f"no progress in {patience:.0f} s; still to read: {left}")
