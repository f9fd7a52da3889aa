from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pipeline.live.feed import Remembered
from pipeline.live.hub import Hub
from pipeline.live.listener import Listener, Lost
from pipeline.live.position import Position
from pipeline.live.ring import Ring, Rings
from tests.unit.live.live_events import CALLBACK, record, request, result, said, tokens, votes
from tests.unit.live.live_world import Client, Memory, listen, teller, told


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub(asyncio.get_running_loop(), listener_queue=100)
    hub.begun({0: 10}, {0: 5})
    yield hub
    hub.close()


@pytest.fixture
def store(hub: Hub) -> Memory:
    return Memory(hub)


async def test_a_task_is_told_as_it_happens_and_its_listener_is_freed(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5))
    client = Client()
    running = await listen(hub, store, client)
    hub.offer([record(tokens(0, "se"), 11), record(tokens(0, "ven"), 12)])
    await told(lambda: "".join(data["text"] for data in client.data("tokens")) == "seven")
    store.put(record(said(0, "seven"), 3))
    hub.offer([record(votes(1), 13)])
    await told(lambda: client.data("votes"))
    store.put(record(result(samples=(0,)), 2))
    assert await running is None
    assert client.names()[-3:] == ["state", "result", "end"]
    assert client.data("state") == [{"status": "pending"}, {"status": "running"}, {"status": "done"}]
    assert client.data("result") == [{"id": "q", "status": "done"}]
    assert client.lines[-2].id == "s3.r2.p13"
    assert hub.listeners == 0


async def test_who_comes_late_is_told_what_was_and_the_same_as_who_was_there(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5))
    first, second = Client(), Client()
    one = await listen(hub, store, first)
    hub.offer([record(tokens(0, "a"), 11), record(tokens(1, "b"), 12), record(votes(1, 1), 13)])
    await told(lambda: first.data("votes"))
    two = await listen(hub, store, second)
    store.put(record(said(0, "a"), 3), record(said(1, "b"), 4), record(result(samples=(0, 1)), 2))
    await asyncio.gather(one, two)
    assert [line for line in second.lines if line.id] == [line for line in first.lines if line.id]


async def test_who_comes_back_gets_the_rest_and_only_that(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5), record(said(0, "x"), 3))
    hub.offer([record(tokens(1, "b"), 12), record(tokens(1, "c"), 14)])
    await told(lambda: hub.remembered("q").records)
    client = Client()
    running = await listen(hub, store, client, Position.parse("s3.p12"))
    store.put(record(result(), 2))
    await running
    assert client.names() == ["state", "tokens", "state", "result", "end"]
    assert client.data("tokens") == [{"sample": 1, "text": "c"}]


async def test_a_record_between_the_registration_and_the_history_is_told_once(
    hub: Hub, store: Memory
) -> None:
    """The store has it when it is asked, and the hub hands it on as well."""
    store.put(record(request(), 5))
    client = Client()
    task = await store.task("q")
    assert task is not None
    running = await listen(hub, store, client)
    store.put(record(said(0, "x"), 3))  # before the history is read: ``history`` gives way once
    store.put(record(result(), 1))
    await running
    assert client.names().count("sample") == 1 and client.names().count("result") == 1


async def test_a_reader_that_takes_nothing_is_dropped_and_the_others_get_everything(
    hub: Hub, store: Memory
) -> None:
    store.put(record(request(), 5))
    slow, quick = Client(), Client()
    slow.stuck = asyncio.Event()
    stuck, running = await listen(hub, store, slow), await listen(hub, store, quick)
    for number in range(500):
        hub.offer([record(tokens(number % 2, "x"), 11 + number)])
        await asyncio.sleep(0)
    assert await stuck is Lost.SLOW
    store.put(record(result(), 2))
    await running
    assert len("".join(data["text"] for data in quick.data("tokens"))) == 500
    assert hub.dropped == 1 and hub.listeners == 0


async def test_whoever_leaves_is_noticed_though_nothing_is_written(hub: Hub, store: Memory) -> None:
    store.put(record(request(callback=CALLBACK), 5))
    client = Client()
    running = await listen(hub, store, client)
    client.gone = True
    assert await running is Lost.LEFT
    assert hub.listeners == 0


async def test_a_result_is_looked_up_once_for_all_who_listen(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5))
    clients = [Client() for _ in range(20)]
    running = [await listen(hub, store, client) for client in clients]
    before = store.asked
    store.put(record(result(), 2))
    await asyncio.gather(*running)
    assert store.asked == before + 1
    assert all(client.data("result") for client in clients)


async def test_progress_from_before_the_gateway_began_may_be_missing_and_that_is_said(
    hub: Hub, store: Memory
) -> None:
    store.put(record(request(), 4))  # before offset 5, from which on all progress is heard
    assert hub.remembered("q") == Remembered((), 9, None)
    hub.offer([record(tokens(0, "b"), 12)])
    await told(lambda: hub.remembered("q").records)
    assert hub.remembered("q").lost_to == 9
    client = Client()
    running = await listen(hub, store, client)
    store.put(record(result(), 2))
    await running
    assert client.data("gap") == [{"dropped": None}]
    again = Client()
    await (await listen(hub, store, again, Position(progress=9)))
    assert not again.data("gap")


async def test_an_ended_task_is_forgotten_soon_and_not_before() -> None:
    now = [0.0]
    hub = Hub(asyncio.get_running_loop(), listener_queue=100, clock=lambda: now[0])
    hub.begun({0: 10}, {0: 5})
    store = Memory(hub)
    store.put(record(request(), 5))
    hub.offer([record(tokens(0, "a"), 12)])
    await told(lambda: hub.remembered("q").records)
    store.put(record(result(), 2))
    hub.offer([record(tokens(0, "late"), 13)])
    await asyncio.sleep(0)
    hub.sweep()
    assert hub.remembered("q").records and hub.tasks == 1
    now[0] = 60.0
    hub.sweep()
    assert hub.tasks == 0
    hub.close()


async def test_closing_lets_everybody_go(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5))
    running = await listen(hub, store, Client())
    hub.close()
    assert await running is Lost.CLOSING


async def test_a_silent_connection_hears_a_heartbeat(hub: Hub, store: Memory) -> None:
    store.put(record(request(), 5))
    client = Client()
    task = await store.task("q")
    assert task is not None
    running = asyncio.create_task(teller(hub, store, 0.0).tell(task, Position(), client))
    await told(lambda: client.beats)
    client.gone = True
    await running


async def test_a_listener_holds_no_more_than_its_bound_in_records_and_in_bytes() -> None:
    listener = Listener(3)
    for offset in range(3):
        listener.put(record(tokens(0, "x"), offset))
    assert listener.lost is None
    listener.put(record(tokens(0, "x"), 3))
    assert listener.lost is Lost.SLOW and await listener.wait() == []
    large = Listener(100)
    for offset in range(9):
        large.put(record(tokens(0, "x" * 1_000_000), offset))
    assert large.lost is Lost.SLOW


def test_a_ring_drops_the_oldest_and_says_how_many() -> None:
    ring = Ring(10_000, -1)
    for offset in range(30):
        ring.add(record(tokens(0, "x" * 100), offset))
    ring.add(record(votes(1), 30))
    ring.add(record(votes(2), 31))
    memory = ring.remembered()
    assert ring.size <= 10_000
    assert memory.lost == memory.lost_to + 1 > 0
    assert [r.offset for r in memory.records] == [*range(memory.lost_to + 1, 30), 31]


def test_all_rings_together_have_a_bound_and_the_most_silent_task_pays() -> None:
    rings = Rings(20_000, 10_000)
    for task in ("a", "b", "c", "b", "c"):
        rings.open(task, -1)
        for offset in range(15):
            rings.add(task, record(tokens(0, "x" * 10, request_id=task), offset))
    assert rings.size <= 20_000

    def kept(task: str) -> int:
        ring = rings.get(task)
        return len(ring.remembered().records) if ring else 0

    assert kept("a") == 0 and kept("c") > 0
    rings.drop("b")
    rings.drop("c")
    assert rings.size == 0 and len(rings) == 1
