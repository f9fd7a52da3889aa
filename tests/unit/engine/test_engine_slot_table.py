"""The table of rows by itself, over a runner that fails when it is told to."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_support import Recorder, task

from pipeline.engine.cache import SlotCache
from pipeline.engine.decode_loop import DecodeLoop
from pipeline.engine.inbox import Inbox
from pipeline.engine.model import LoadedModel
from pipeline.engine.prefix import Prefix
from pipeline.engine.slot_table import SlotTable, Step

LIKE = torch.zeros(1, 1, 1, 4)


class FailingRunner:
    """Steps at most so many rows at once; notes what it was asked."""

    def __init__(self, *, max_tokens: int = 0) -> None:
        self.cache = SlotCache(8, 512, max_tokens=max_tokens)
        self.most = 8
        self.asked: list[tuple[int, bool]] = []

    def decode(self, first: int, tokens: Any, positions: Any, *, fill: bool) -> torch.Tensor:
        self.asked.append((len(tokens), fill))
        if len(tokens) > self.most:
            raise torch.OutOfMemoryError
        return torch.zeros(len(tokens), 1, 5)


def filled(runner: Any, *lengths: int) -> tuple[Any, list[Any]]:
    table = SlotTable(runner, 8)
    rows = [
        SimpleNamespace(length=length, generated=[1], number=place) for place, length in enumerate(lengths)
    ]
    join(table, rows)
    return table, rows


def join(table: Any, rows: list[Any]) -> None:
    for row in rows:
        prefix = Prefix(range(row.length - 1))
        prefix.layers = [(LIKE.expand(1, 1, row.length - 1, 4),) * 2]
        table.join(row, prefix)


def test_one_more_row_fits_if_the_next_token_of_the_longest_does() -> None:
    table, _ = filled(FailingRunner(max_tokens=128), 63)
    short: Any = SimpleNamespace(length=10)
    assert table.fits(short)
    table.active[0].length = 64
    assert not table.fits(short)


def test_a_row_widens_the_cache_only_if_it_is_longer_than_that() -> None:
    table, _ = filled(FailingRunner(), 64)
    same: Any = SimpleNamespace(length=64)
    longer: Any = SimpleNamespace(length=65)
    assert (table.widens_for(same), table.widens_for(longer)) == (False, True)


def test_rows_that_do_not_fit_at_once_are_stepped_in_parts_and_only_a_whole_is_filled_up() -> None:
    runner = FailingRunner()
    table, rows = filled(runner, 5, 6, 7, 8)
    runner.most = 1
    results = table.step()
    assert [row for row, _ in results] == rows and all(isinstance(step, Step) for _, step in results)
    assert runner.asked == [(4, True), (2, False), (1, False), (1, False), (2, False), (1, False), (1, False)]
    runner.asked.clear()
    table.step()
    assert runner.asked == [(1, False)] * 4


def test_parts_grow_again_after_a_calm_time_that_begins_with_the_last_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.engine.slot_table._RECOVERY_STEPS", 3)
    runner = FailingRunner()
    table, _ = filled(runner, 5, 6, 7, 8)

    def sizes() -> list[int]:
        runner.asked.clear()
        table.step()
        return [size for size, _ in runner.asked]

    assert sizes() == [4]
    runner.most = 2
    assert [sizes() for _ in range(4)] == [[4, 2, 2], [2, 2], [2, 2], [3, 2, 1, 1]]


def test_the_last_to_leave_takes_all_limits_with_it() -> None:
    runner = FailingRunner()
    table, rows = filled(runner, 5, 6)
    runner.most = 1
    table.step()
    table.shrink()
    assert table.limit == 2
    for row in rows:
        table.leave(row)
    assert table.limit == 8 and runner.cache.bytes == 0
    runner.most = 8
    runner.asked.clear()
    join(table, rows)
    table.step()
    assert runner.asked == [(2, True)]


def test_who_had_to_leave_for_memory_is_the_newest_and_no_more_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = FailingRunner()
    table, rows = filled(runner, 5, 6, 7)
    reserve = runner.cache.reserve

    def short(count: int, length: int) -> None:
        if count > 2:
            raise torch.OutOfMemoryError
        reserve(count, length)

    monkeypatch.setattr(runner.cache, "reserve", short)
    relieved = iter([True, False, False])
    assert table.make_room(lambda: next(relieved)) == [rows[2]]
    assert (table.active, table.limit) == (rows[:2], 2)


def test_who_had_to_leave_goes_on_before_the_one_that_was_joining_and_the_oldest_first(
    tiny: LoadedModel,
) -> None:
    inbox = Inbox()
    for name in ("oldest", "older", "joining", "waiting"):
        inbox.submit(task(name))
    oldest, older, joining, waiting = (inbox.take() for _ in range(4))
    assert oldest and older and joining and waiting
    inbox.put_back([waiting])
    table, _ = filled(FailingRunner())
    reader: Any = SimpleNamespace(chunk=16)
    loop = DecodeLoop(tiny, table, reader, inbox, Recorder(), time.time)
    loop._joining = joining
    loop._wait_again([older, oldest])
    assert [inbox.take() for _ in range(5)] == [oldest, older, joining, waiting, None]
    assert loop._joining is None
