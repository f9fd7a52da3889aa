from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_events import opened, sample, window_of

from pipeline.errors import BrokerDownError
from pipeline.events import Logprobs, Mode, Role, Sample, Status
from pipeline.kafka.codec import Codec
from pipeline.topics import shard_of
from pipeline.window_table import WindowStore, restore
from pipeline.windows import Asked, Cancel, Window, WindowKey

CODEC = Codec()


class Log:
    """A changelog of this process."""

    def __init__(self) -> None:
        self.changelog: list[tuple[int, bytes, bytes | None]] = []
        self.answers = True

    async def log(self, partition: int, writes: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.changelog += [(partition, *write) for write in writes]
        if not self.answers:
            raise BrokerDownError("no answer, though it has everything")

    def read(self, partition: int) -> dict[bytes, bytes]:
        last = {key: value for place, key, value in self.changelog if place == partition}
        return {key: value for key, value in last.items() if value is not None}


def keep(store: WindowStore, key: WindowKey, window: Window) -> None:
    if window.opened is not None:
        store.opened(key, CODEC.encode(window.opened))
    for one in window.samples.values():
        store.sample(key, one.sample_index, CODEC.encode(one))
    if window.state is Status.FIRST_ANSWER:
        store.first_published(key)
    if window.cancelled is not None:
        store.cancelled(key, window.cancelled)
    if window.asked is not None:
        store.review_asked(key, window.asked)


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
    log, windows = Log(), dict[WindowKey, Window]()
    for request_id in sorted(request_ids):
        store = WindowStore(log, shard_of(request_id, shards))
        marker = opened(5, Mode.DEEP, request_id=request_id) if data.draw(st.booleans()) else None
        waits = st.sampled_from([None, Cancel(5), Cancel(7, "a reason, 不要了")])
        order = data.draw(waits) if marker is None else None
        indices = data.draw(st.sets(st.integers(0, 4), min_size=marker is None and order is None))
        window = window_of(marker, samples_of(request_id, indices))
        if marker is not None and 0 in indices and data.draw(st.booleans()):
            window.state = Status.FIRST_ANSWER
        window.asked = Asked(6, 12_345) if marker is not None and data.draw(st.booleans()) else None
        window.cancelled = order
        key = (request_id, data.draw(st.integers(0, 3)))
        keep(store, key, window)
        asyncio.run(store.flush())
        if data.draw(st.booleans()):
            store.closed(key, window)
            asyncio.run(store.flush())
        else:
            windows[key] = window
    for shard in range(shards):
        mine = {key: window for key, window in windows.items() if shard_of(key[0], shards) == shard}
        assert restore(log.read(shard), CODEC) == mine
    assert all(
        partition == shard_of(key.split(b"\0")[0].decode(), shards) for partition, key, _ in log.changelog
    )


@pytest.mark.parametrize("written", ["not", "wholly", "perhaps"])
def test_a_window_that_closes_leaves_nothing(written: str) -> None:
    log, key = Log(), ("q", 0)
    store = WindowStore(log, 0)
    window = window_of(opened(mode=Mode.DEEP), samples_of("q", range(3)))
    window.cancelled = Cancel(3, "no more")
    window.state, window.asked = Status.FIRST_ANSWER, Asked(2, 9)
    keep(store, key, window)
    if written == "wholly":
        asyncio.run(store.flush())
    if written == "perhaps":
        log.answers = False
        with pytest.raises(BrokerDownError):
            asyncio.run(store.flush())
        log.answers = True
    store.closed(key, window)
    asyncio.run(store.flush())
    assert log.read(0) == {}
    assert bool(log.changelog) is (written != "not")


def test_what_could_not_be_written_is_written_next() -> None:
    log = Log()
    store = WindowStore(log, 0)
    keep(store, ("q", 0), window_of(opened(), samples_of("q", range(2))))
    log.answers = False
    with pytest.raises(BrokerDownError):
        asyncio.run(store.flush())
    log.answers = True
    asyncio.run(store.flush())
    assert len(log.read(0)) == 3


def test_a_sample_is_written_once_and_not_with_every_later_one() -> None:
    log = Log()
    store = WindowStore(log, 0)
    for one in samples_of("q", range(4)):
        store.sample(("q", 0), one.sample_index, CODEC.encode(one))
        asyncio.run(store.flush())
    asyncio.run(store.flush())
    assert len(log.changelog) == 4


def test_what_is_restored_does_not_hold_log_probabilities_by_token() -> None:
    plain = sample(0, "42")
    record = CODEC.encode(replace(plain, logprobs=Logprobs(5, dropped=True)))
    (window,) = restore({b"r\x000\x000": record}, CODEC).values()
    assert window.samples == {0: plain}
