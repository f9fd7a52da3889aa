from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_events import opened, sample, window_of

from pipeline.events import Mode, Role, Sample
from pipeline.kafka.codec import Codec
from pipeline.topics import shard_of
from pipeline.window_table import WindowStore, restore
from pipeline.windows import Window, WindowKey

CODEC = Codec()


class Table:
    """A Faust table of this process: its data, and the changelog from which a successor gets it again."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.changelog: list[tuple[int, bytes, bytes | None]] = []

    async def send_changelog(self, partition: int, key: bytes, value: bytes | None, *_: Any) -> None:
        self.changelog.append((partition, key, value))

    def recovered(self) -> Table:
        successor = Table()
        for _, key, value in self.changelog:
            if value is None:
                successor.data.pop(key, None)
            else:
                successor.data[key] = value
        return successor


def keep(store: WindowStore, key: WindowKey, window: Window) -> None:
    if window.opened is not None:
        store.opened(key, CODEC.encode(window.opened))
    for one in window.samples.values():
        store.sample(key, one.sample_index, CODEC.encode(one))
    if window.first_published:
        store.first_published(key)


def samples_of(request_id: str, indices: Iterable[int]) -> list[Sample]:
    return [sample(i, "42", role=Role.ANSWER if i else Role.FIRST, request_id=request_id) for i in indices]


@settings(max_examples=40, deadline=None)
@given(
    request_ids=st.sets(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1), max_size=4
    ),
    data=st.data(),
    shards=st.integers(1, 3),
)
def test_what_is_restored_is_the_window(request_ids: set[str], data: st.DataObject, shards: int) -> None:
    table, windows = Table(), dict[WindowKey, Window]()
    for request_id in sorted(request_ids):
        store = WindowStore(table, shard_of(request_id, shards))
        marker = opened(5, Mode.DEEP, request_id=request_id) if data.draw(st.booleans()) else None
        indices = data.draw(st.sets(st.integers(0, 4), min_size=marker is None))
        window = window_of(marker, samples_of(request_id, indices))
        window.first_published = marker is not None and data.draw(st.booleans())
        key = (request_id, data.draw(st.integers(0, 3)))
        keep(store, key, window)
        asyncio.run(store.flush())
        if data.draw(st.booleans()):
            store.closed(key, window, 77)
            window = Window(closed_at=77)
            asyncio.run(store.flush())
        windows[key] = window
    for shard in range(shards):
        mine = {key: window for key, window in windows.items() if shard_of(key[0], shards) == shard}
        assert restore(table.data, shard, shards, CODEC) == mine
        assert restore(table.recovered().data, shard, shards, CODEC) == mine
    assert table.recovered().data == table.data
    assert all(
        partition == shard_of(key.split(b"\0")[0].decode(), shards) for partition, key, _ in table.changelog
    )


@pytest.mark.parametrize("together", [True, False], ids=["one flush", "two flushes"])
def test_a_forgotten_window_leaves_nothing(together: bool) -> None:
    table, key = Table(), ("q", 0)
    store = WindowStore(table, 0)
    window = window_of(opened(mode=Mode.DEEP), samples_of("q", range(3)))
    window.first_published = True
    keep(store, key, window)
    if not together:
        asyncio.run(store.flush())
    store.closed(key, window, 5)
    asyncio.run(store.flush())
    assert list(table.data.values()) == [b"closed 5"]
    store.forgotten(key, window)
    asyncio.run(store.flush())
    assert table.data == {} and table.recovered().data == {}


def test_a_sample_is_written_once_and_not_with_every_later_one() -> None:
    table = Table()
    store = WindowStore(table, 0)
    for one in samples_of("q", range(4)):
        store.sample(("q", 0), one.sample_index, CODEC.encode(one))
        asyncio.run(store.flush())
    asyncio.run(store.flush())
    assert len(table.changelog) == 4
