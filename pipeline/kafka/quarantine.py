"""Handles records so that a death can be blamed on the right one: suspects alone, poison not at all.

While no process has died, this costs two small writes for each gathering of records and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Self

from pipeline.errors import DependencyDownError, FencedError, PoisonRecordError
from pipeline.kafka.crash_journal import FATAL_DEATHS, CrashJournal, Work, work_of
from pipeline.kafka.dead_letters import Source, dead_letter
from pipeline.kafka.records import Output
from pipeline.settings import Settings


class Quarantine:
    """Which records of one process may be handled together, and which must be parked.

    Args:
        stage: the hop, for dead letters.
    """

    def __init__(self, journal: CrashJournal, *, stage: str, shards: int) -> None:
        self._journal, self._stage, self._shards = journal, stage, shards
        self._turnstile = _Turnstile()

    @classmethod
    @contextmanager
    def of(cls, settings: Settings, role: str) -> Generator[Self]:
        """With the journal of this process, which lets everything go when the block ends in order."""
        with CrashJournal.of(settings, role) as journal:
            yield cls(journal, stage=role, shards=settings.shards)

    def parts(self, records: Sequence[Source]) -> Iterator[Part]:
        """Cut records, in their order, into what is handled together; every suspect stands alone."""
        company: list[Source] = []
        for record in records:
            if deaths := self._journal.deaths(work_of(record)):
                if company:
                    yield Part(self._journal, company)
                    company = []
                yield Part(self._journal, [record], deaths)
            else:
                company.append(record)
        if company or not records:
            yield Part(self._journal, company)

    def letter(self, part: Part) -> Output:
        """The dead letter of a part that is poison."""
        return dead_letter(
            part.records[0], part.error(), stage=self._stage, shards=self._shards, attempts=part.deaths
        )

    def let_go(self) -> None:
        """What kills the process now is not the fault of any record, as while a server is asked."""
        self._journal.let_go()

    @asynccontextmanager
    async def handling(self, part: Part) -> AsyncGenerator[None]:
        """Handle a part in this block: a suspect while no other part of this process is handled."""
        async with self._turnstile.alone() if part.suspect else self._turnstile.together():
            with part.in_hand():
                yield


class Part:
    """Records that are handled together.

    Attributes:
        deaths: how many processes have died with its record in hand; more than 0 only for one alone.
    """

    def __init__(self, journal: CrashJournal, records: Sequence[Source], deaths: int = 0) -> None:
        self._journal, self.records, self.deaths = journal, records, deaths
        self._works: list[Work] = [work_of(record) for record in records]

    @property
    def suspect(self) -> bool:
        return self.deaths > 0

    @property
    def poison(self) -> bool:
        return self.deaths >= FATAL_DEATHS

    def error(self) -> PoisonRecordError:
        """Why it is not tried again."""
        return PoisonRecordError(f"{self.deaths} processes died while they handled it")

    @contextmanager
    def in_hand(self) -> Generator[None]:
        """Blamed in this block if the process dies; an outage or a cancellation lets go, a bug does not."""
        self._journal.begin(self._works)
        try:
            yield
        except (asyncio.CancelledError, DependencyDownError, FencedError):
            self._journal.rest(self._works)
            raise
        except BaseException:
            self._journal.begin(self._works)  # it may have rested when the bug came
            raise
        self._journal.rest(self._works)

    def rest(self) -> None:
        """From here on only Kafka is waited for: what kills the process now is not the records' fault."""
        self._journal.rest(self._works)

    def end(self) -> None:
        """Its records are through."""
        self._journal.end(self._works)


class _Turnstile:
    """Many together, or one alone. For one event loop."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._inside = 0
        self._open = asyncio.Event()
        self._empty = asyncio.Event()
        self._open.set()
        self._empty.set()

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        while not self._open.is_set():  # it may have been shut again before this task had its turn
            await self._open.wait()
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Shut the entrance first, so that those who come later can not keep it waiting for ever."""
        async with self._one:
            self._open.clear()
            try:
                await self._empty.wait()
                yield
            finally:
                self._open.set()
