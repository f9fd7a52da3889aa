"""Files that can not be used: which are thrown away, which are refused, and that a full one takes nothing by halves."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from store_events import content_of, request, sample, stored, take, view_in

from pipeline.errors import ConfigError
from pipeline.store.reading import Reading

FILE = "view.sqlite"


def _not_a_database(folder: Path) -> None:
    (folder / FILE).write_bytes(b"x" * 10_000)


def _empty(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


def _told(statement: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        connection = sqlite3.connect(folder / FILE)
        connection.execute(statement)
        connection.close()

    return harm


@pytest.mark.parametrize(
    "harm",
    [_not_a_database, _empty, _told("PRAGMA user_version = 1"), _told("PRAGMA application_id = 1")],
    ids=["no database", "empty", "another version", "another program's"],
)
def test_a_file_of_no_use_is_begun_anew(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    view = view_in(tmp_path)
    take(view, stored(request("a"), 0))
    view.close()
    harm(tmp_path)
    view = view_in(tmp_path)
    assert view.positions() == {}
    take(view, stored(request("a"), 0))
    assert Reading(view.connections).task("a") is not None
    view.close()


def test_another_source_begins_anew_and_the_same_goes_on(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    assert view.belongs_to("one")
    take(view, stored(request("a"), 0))
    assert not view.belongs_to("one")
    assert view.positions()
    assert view.belongs_to("two")
    assert not view.belongs_to("two")
    assert view.positions() == {}
    view.close()


def test_a_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    with pytest.raises(ConfigError, match="TALLYSTREAM_SLOT"):
        view_in(tmp_path)
    view.close()
    view_in(tmp_path).close()


def test_a_folder_that_can_not_be_written_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "taken"):
        for _ in range(2):
            with pytest.raises(ConfigError, match="TALLYSTREAM_GATEWAY__FOLDER"):
                view_in(folder)


def test_a_full_disk_takes_nothing_by_halves_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    take(view, stored(request("a"), 0))
    before, mine = content_of(view), view.connections.mine()
    pages = mine.execute("PRAGMA page_count").fetchone()[0]
    mine.execute(f"PRAGMA max_page_count = {pages}")
    lot = [stored(sample("a", index, text="x" * 10_000), index) for index in range(20)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        take(view, *lot)
    assert content_of(view) == before
    mine.execute("PRAGMA max_page_count = 1000000")
    assert len(take(view, *lot)) == 20
    view.close()


def test_readers_follow_to_a_new_file_and_a_lost_one_is_noticed(tmp_path: Path) -> None:
    view, found = view_in(tmp_path), list[object]()
    take(view, stored(request("a"), 0))
    reading, go, done = Reading(view.connections), threading.Event(), threading.Event()

    def read_twice() -> None:
        found.append(reading.task("a"))
        done.set()
        go.wait()
        found.append(reading.task("a"))

    reader = threading.Thread(target=read_twice)
    reader.start()
    done.wait()
    (tmp_path / FILE).unlink()
    assert view.lost
    view.renew()
    assert not view.lost
    go.set()
    reader.join()
    assert found[0] is not None
    assert found[1] is None
    view.close()
