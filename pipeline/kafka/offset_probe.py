"""Asks Kafka how far a group is behind, apart from the clients whose progress is in question.

A consumer that stopped fetching knows of no end that it has not reached, so its own figures hide the stall.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from pipeline.errors import BrokerDownError
from pipeline.kafka.clients import assigned_consumer, patiently
from pipeline.kafka.records import Place
from pipeline.ledger import Standing
from pipeline.settings import Settings

_TIMEOUT = 5.0
"""Seconds of one question."""


class _Look(NamedTuple):
    """The first readable record from ``committed`` on, when the partition ended at ``end``."""

    committed: int
    record: int
    end: int


class OffsetProbe:
    """Blocking; for one thread, but made by any.

    Markers of transactions fill offsets too, so a group that has read everything still stands before the end.
    Where a group has not moved, a look at the next record tells; it is repeated only when something changes.
    """

    def __init__(self, settings: Settings, role: str) -> None:
        self._consumer = assigned_consumer(
            settings,
            group_id=f"{settings.app}-{role}",
            fetch_message_max_bytes=1,
            queued_min_messages=1,
            allow_auto_create_topics=False,
        )
        self._looked: dict[Place, _Look] = {}

    def standings(self, places: Sequence[Place]) -> Mapping[Place, Standing]:
        """Where the group stands in these partitions.

        One of which a fetch did not say in time how far it is behind counts as not behind: what it has committed is
        known, and its moves are.

        Raises:
            BrokerDownError: Kafka does not answer.
        """
        try:
            ends = self._ends(places)
            committed = self._committed(places)
            stale = {
                place: committed[place][0]
                for place in places
                if committed[place][0] < ends[place] and self._stale(place, committed[place][0], ends[place])
            }
            found = self._next_records(stale)
            for place, record in found.items():
                self._looked[place] = _Look(stale[place], record, ends[place])
        except KafkaException as error:
            raise BrokerDownError(str(error)) from error
        return {
            place: Standing(self._position(place, offset, ends[place]), metadata, ends[place])
            if place in found or place not in stale
            else Standing(offset, metadata, offset)
            for place, (offset, metadata) in committed.items()
        }

    def _stale(self, place: Place, offset: int, end: int) -> bool:
        look = self._looked.get(place)
        return look is None or look.committed != offset or look.record >= look.end != end

    def _position(self, place: Place, offset: int, end: int) -> int:
        return min(self._looked[place].record, end) if offset < end else offset

    def close(self) -> None:
        self._consumer.close()

    def _ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """Asked of the consumer: the admin client's own call can abort the process while Kafka is away."""
        return {
            place: patiently(
                partial(self._consumer.get_watermark_offsets, TopicPartition(*place), timeout=_TIMEOUT),
                deadline=_TIMEOUT,
            )[1]
            for place in places
        }

    def _committed(self, places: Sequence[Place]) -> dict[Place, tuple[int, str]]:
        """A group that has committed nothing stands at -1, before everything."""
        found: list[Any] = self._consumer.committed([TopicPartition(*p) for p in places], timeout=_TIMEOUT)
        for tp in found:
            if tp.error is not None:
                raise KafkaException(tp.error)
        return {(tp.topic, tp.partition): (max(tp.offset, -1), tp.metadata or "") for tp in found}

    def _next_records(self, starts: Mapping[Place, int]) -> dict[Place, int]:
        """The offset of the first record from there on that can be read; the end where there is none.

        A fetch can be late where everything is busy: that is no Kafka that is away, since it has just answered.
        """
        found: dict[Place, int] = {}
        if not starts:
            return found
        self._consumer.assign(
            [TopicPartition(*place, at if at >= 0 else OFFSET_BEGINNING) for place, at in starts.items()]
        )
        deadline = time.monotonic() + _TIMEOUT
        while len(found) < len(starts):
            message = self._consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                break
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # pyright: ignore
                continue
            place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
            if place in starts:
                found.setdefault(place, offset)
        self._consumer.unassign()
        return found
