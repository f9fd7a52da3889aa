"""What a command writes: in transactions of many records each, and with no other run of the command beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException

from pipeline.errors import BrokerDownError
from pipeline.kafka.records import Output, size_of
from pipeline.kafka.transactional_producer import TransactionalProducer, said_plainly
from pipeline.settings import Settings

_MOST_UNITS, _MOST_BYTES = 100, 4 * 1024 * 1024
"""Of one transaction, so that it ends well before its time-out."""


class Command(StrEnum):
    """What writes so; with the app's name it is the transactional id."""

    RESEND_DELIVERIES = "deliveries"
    REPLAY_LETTERS = "replay"
    REPLAY_REQUESTS = "replay-requests"
    REVOTE = "revote"


Unit = Sequence[Output]
"""Records that are written together or not at all."""


class CommandWriter:
    """A context: within it, every earlier run of the command is over, and what that left open is aborted.

    A run that is stopped by a signal ends the transaction that it is in before it goes: left open, it would hold up
    every reader of its partitions until its time-out.

    Args:
        fenced: what is said when a newer run has fenced this one.
        down: what is said after Kafka's own words when a repetition can help.

    Raises:
        FencedError: a newer run has begun; what this one has written is written.
        NotPermittedError: Kafka does not let this user write so.
        BrokerDownError: Kafka is away; repeat the command.
    """

    def __init__(self, settings: Settings, command: Command, *, fenced: str, down: str) -> None:
        self._producer = TransactionalProducer(settings, f"{settings.app}-{command}")
        self._plainly = partial(said_plainly, fenced=fenced, down=down)

    def __enter__(self) -> Self:
        try:
            self._plainly(self._producer.fence)
        except BaseException:
            self._producer.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            with contextlib.suppress(KafkaException, BrokerDownError):  # as a rule there is none
                self._producer.abort()
        self._producer.close()

    def write(self, units: Iterable[Unit], most: int | None = None) -> Iterator[int]:
        """Write a lot of units after the other; gives the number of units that are written, after each lot.

        Args:
            most: units of a lot, for who writes slowly; without, as many as a transaction carries.
        """
        done = 0
        for lot in _lots(units, min(most or _MOST_UNITS, _MOST_UNITS)):
            self._plainly(partial(self._producer.commit, [out for unit in lot for out in unit]))
            done += len(lot)
            yield done


def _lots(units: Iterable[Unit], most: int) -> Iterator[list[Unit]]:
    lot: list[Unit] = []
    size = 0
    for unit in units:
        lot.append(unit)
        size += sum(size_of(out.key, out.value, out.headers) for out in unit)
        if len(lot) >= most or size >= _MOST_BYTES:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot
