"""Suspects are handled alone, so the guilty one is found, and only that is parked."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BrokerDownError
from pipeline.kafka.crash_journal import FATAL_DEATHS, CrashJournal, work_of
from pipeline.kafka.dead_letters import PREFIX, Source
from pipeline.kafka.quarantine import Quarantine
from pipeline.topics import DEAD_LETTERS


class Killed(BaseException):
    """Stands for SIGKILL: nothing that follows in this life is done."""


def record(offset: int) -> Source:
    return Source("requests", 0, offset, 1, b"k", b"%d" % offset, (("traceparent", b"00"),))


RECORDS = [record(offset) for offset in range(8)]


def quarantine(folder: Path) -> Quarantine:
    return Quarantine(CrashJournal(folder / "journal"), stage="batcher", shards=1)


def offsets(one: Quarantine) -> list[list[int]]:
    return [[each.offset for each in part.records] for part in one.parts(RECORDS[:5])]


def die_of(folder: Path, *blamed: int) -> None:
    CrashJournal(folder / "journal").begin([work_of(record(offset)) for offset in blamed])


def test_records_are_handled_together_while_nobody_has_died(tmp_path: Path) -> None:
    one = quarantine(tmp_path)
    assert offsets(one) == [[0, 1, 2, 3, 4]]
    assert [part.records for part in one.parts([])] == [[]], "time alone may ask for work"


def test_every_suspect_stands_alone_and_in_its_order(tmp_path: Path) -> None:
    die_of(tmp_path, 2, 3)
    one = quarantine(tmp_path)
    assert offsets(one) == [[0, 1], [2], [3], [4]]
    assert [part.suspect for part in one.parts(RECORDS[:5])] == [False, True, True, False]


def test_poison_becomes_a_dead_letter_that_says_how_often_it_was_tried(tmp_path: Path) -> None:
    for _ in range(FATAL_DEATHS):
        die_of(tmp_path, 1)
    one = quarantine(tmp_path)
    (part,) = [part for part in one.parts(RECORDS) if part.poison]
    letter = one.letter(part)
    headers = dict(letter.headers)
    assert (letter.topic, letter.key, letter.value) == (DEAD_LETTERS, b"k", b"1")
    assert headers["traceparent"] == b"00"
    assert headers[PREFIX + "code"] == b"poison_record"
    assert headers[PREFIX + "attempts"] == b"3"


async def test_an_outage_and_a_cancellation_let_go_but_a_bug_does_not(tmp_path: Path) -> None:
    for error, deaths in ((BrokerDownError("away"), 0), (asyncio.CancelledError(), 0), (KeyError("bug"), 1)):
        one = quarantine(tmp_path)
        (part,) = one.parts(RECORDS[:1])
        with pytest.raises(type(error)):
            async with one.handling(part):
                raise error
        assert next(iter(quarantine(tmp_path).parts(RECORDS[:1]))).deaths == deaths


async def test_waiting_for_kafka_is_not_blamed_unless_a_bug_ends_it(tmp_path: Path) -> None:
    one = quarantine(tmp_path)
    (part,) = one.parts(RECORDS[:1])
    with pytest.raises(KeyError):
        async with one.handling(part):
            part.rest()
            assert not next(iter(quarantine(tmp_path).parts(RECORDS[:1]))).suspect
            raise KeyError("bug")
    assert next(iter(quarantine(tmp_path).parts(RECORDS[:1]))).suspect


async def test_a_suspect_has_the_process_to_itself(tmp_path: Path) -> None:
    """Whatever other partitions do, for any number of suspects; nobody waits for ever."""
    die_of(tmp_path, *range(0, 8, 2))
    one, inside, met = quarantine(tmp_path), set[int](), list[tuple[int, set[int]]]()

    async def handle(source: Source) -> None:
        (part,) = one.parts([source])
        async with one.handling(part):
            inside.add(source.offset)
            for _ in range(3):
                await asyncio.sleep(0)
                met.append((source.offset, set(inside)))
            inside.discard(source.offset)

    await asyncio.gather(*map(handle, RECORDS))
    assert {offset for offset, _ in met} == set(range(8))
    assert all(others == {offset} for offset, others in met if offset % 2 == 0)
    assert any(len(others) > 1 for offset, others in met if offset % 2)


async def test_one_that_gives_up_waiting_shuts_nobody_out(tmp_path: Path) -> None:
    die_of(tmp_path, 1)
    one = quarantine(tmp_path)
    company, suspect = one.parts(RECORDS[:2])
    async with one.handling(company):
        waiting = asyncio.create_task(_handled(one, suspect))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    await _handled(one, company)
    await _handled(one, suspect)


async def _handled(one: Quarantine, part) -> None:
    async with one.handling(part):
        pass


@settings(deadline=None)
@given(poison=st.sets(st.integers(0, 7), max_size=4), gathered=st.integers(1, 8))
def test_only_poison_is_parked_whatever_came_with_it(poison: set[int], gathered: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        left, parked, served, lives = list(RECORDS), list[int](), list[int](), 0
        while left:
            lives += 1
            one = quarantine(Path(folder))
            while left:
                try:
                    _serve(one, left, gathered, poison, parked, served)
                except Killed:
                    break
        assert parked == sorted(poison)
        assert served == [offset for offset in range(8) if offset not in poison]
        assert lives - 1 <= FATAL_DEATHS * len(poison)


def _serve(
    one: Quarantine, left: list[Source], most: int, poison: set[int], parked: list[int], served: list[int]
) -> None:
    for part in one.parts(left[:most]):
        if part.poison:
            parked.append(part.records[0].offset)
        else:
            with part.in_hand():
                if any(each.offset in poison for each in part.records):
                    raise Killed
            served += [each.offset for each in part.records]
        part.end()
        del left[: len(part.records)]
