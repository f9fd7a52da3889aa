"""What this process has in hand, in a file that outlives it: so its successor knows what it died of.

The order, and what a death after each step leaves behind:

1. ``begin`` writes down what will be handled  (the successor counts one death for each of these)
2. handle it
3. ``rest`` when only Kafka is left to wait for (remembered, but a death is not blamed on it)
4. ``end`` when it is through                   (nothing)

A write that was cut short leaves the one before it (``TwoPages``), and what it would have named had not begun.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import structlog
from confluent_kafka import KafkaException

from pipeline.errors import RecordTooLargeError, TallystreamError
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Place
from pipeline.kafka.two_pages import TwoPages
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

FATAL_DEATHS = 3
"""So many processes may die with a record in hand; then it is parked."""

_REMEMBERED = 86_400
"""Seconds after which a suspect that has not come again is forgotten: another process had it."""

_ORDERLY = (SystemExit, KeyboardInterrupt, TallystreamError, KafkaException)
"""What ends a process that is not the fault of what it handles."""


class Work(NamedTuple):
    """A record, or one request's part of it.

    Attributes:
        part: which group of a batch; 0 for a whole record.
        checksum: CRC-32 of key and value. On a broker that was made anew another record has this offset,
            and must not pay for this one.
    """

    topic: str
    partition: int
    offset: int
    part: int
    checksum: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition


class _Suspicion(NamedTuple):
    deaths: int
    last_at: int


def work_of(source: Source, part: int = 0) -> Work:
    """Name a record, or one part of it."""
    checksum = zlib.crc32(source.value or b"", zlib.crc32(source.key or b""))
    return Work(source.topic, source.partition, source.offset, part, checksum)


class CrashJournal:
    """Counts how many processes of one role and slot have died of what; for any thread.

    A context manager: an orderly end, also one by an error of Kafka, lets everything go; a bug does not.

    Args:
        path: of its files, less their suffixes. What can not be read in them counts as nothing.
        now: unix time in seconds.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._in_hand: dict[Work, None] = {}
        self._suspects: dict[Work, _Suspicion] = {}
        self._pages = TwoPages(path)
        died_of, suspects = _parse(self._pages.last)
        at = round(now())
        for work, suspicion in suspects.items():
            if suspicion.last_at > at - _REMEMBERED:
                self._suspects[work] = suspicion
        for work in died_of:
            deaths = suspects[work].deaths if work in suspects else 0
            self._suspects[work] = _Suspicion(deaths + 1, at)
        self._awaited = set(self._suspects)
        if died_of or suspects:
            log.warning("suspects", count=len(self._suspects), died_of=[list(work) for work in died_of[:8]])
        self._save()

    @classmethod
    def of(cls, settings: Settings, role: str) -> CrashJournal:
        """The journal of this process; two processes of one role must differ in their slot."""
        return cls(settings.home / "journal" / f"{settings.app}-{role}-{settings.slot}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, _ORDERLY) and not isinstance(error, RecordTooLargeError)):
            self.let_go()

    def deaths(self, work: Work) -> int:
        """How many processes have died with this in hand, as of this one's start.

        The records of a partition come in order: of earlier suspects, those that have not come are through.
        """
        if not self._suspects:
            return 0
        with self._lock:
            for other in [other for other in self._awaited if other.place == work.place]:
                stranger = other.offset == work.offset and other.checksum != work.checksum
                if other.offset < work.offset or stranger:
                    del self._suspects[other]
                    self._awaited.discard(other)
            self._awaited.discard(work)
            suspicion = self._suspects.get(work)
            return suspicion.deaths if suspicion else 0

    def begin(self, works: Iterable[Work]) -> None:
        """Take in hand, before anything is done with it."""
        with self._lock:
            before = len(self._in_hand)
            self._in_hand.update(dict.fromkeys(works))
            if len(self._in_hand) > before:
                self._save()

    def hold(self, works: Collection[Work]) -> None:
        """Have exactly these in hand."""
        with self._lock:
            if self._in_hand.keys() != set(works):
                self._in_hand = dict.fromkeys(works)
                self._save()

    def let_go(self) -> None:
        """Have nothing in hand: from here on something else is waited for."""
        self.hold(())

    def rest(self, works: Iterable[Work]) -> None:
        """Out of hand, for now or for good; earlier deaths stay counted."""
        with self._lock:
            if self._put_down(works):
                self._save()

    def end(self, works: Iterable[Work]) -> None:
        """Handled, and nobody died: earlier deaths were not its fault."""
        works = list(works)
        with self._lock:
            cleared = [work for work in works if self._suspects.pop(work, None)]
            self._awaited.difference_update(cleared)
            if self._put_down(works) or cleared:
                self._save()

    def _put_down(self, works: Iterable[Work]) -> bool:
        before = len(self._in_hand)
        for work in works:
            self._in_hand.pop(work, None)
        return len(self._in_hand) < before

    def _save(self) -> None:
        suspects = [[*work, *suspicion] for work, suspicion in self._suspects.items()]
        self._pages.write({"in_hand": list(self._in_hand), "suspects": suspects})


def _parse(content: dict[str, Any]) -> tuple[list[Work], dict[Work, _Suspicion]]:
    """What the last life had in hand, and whom it suspected."""
    if not content:
        return [], {}
    try:
        died_of = [_work(entry) for entry in content["in_hand"]]
        return died_of, {_work(e[:5]): _Suspicion(*map(int, e[5:])) for e in content["suspects"]}
    except (ValueError, TypeError, KeyError) as error:
        log.warning("the crash journal is not one of ours, begins empty", error=repr(error))
        return [], {}


def _work(entry: Any) -> Work:
    topic, *numbers = entry
    partition, offset, part, checksum = map(int, numbers)
    return Work(str(topic), partition, offset, part, checksum)
