"""Events over real sockets: what a browser, a slow reader and a reader that leaves meet."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession, WSMsgType
from aiohttp.test_utils import BaseTestServer, TestServer

from pipeline.gateway.app import build_app
from pipeline.gateway.context import Gateway
from pipeline.gateway.key_file import KeyRing, keys_path
from pipeline.gateway.limits import Buckets
from pipeline.live.hub import Hub
from pipeline.settings import load_settings
from tests.unit.live.live_events import CALLBACK, record, request, result, said, tokens
from tests.unit.live.live_world import Memory, told

MANY = ["\n\n\n", "line1\n", "a\u2028b", "a\x0bb", "\u0085\r\n", " data: x\n\nid: s9", "日本\U0001f600", ""]
URL = "/v1/tasks/q/events"


@dataclass(frozen=True, slots=True)
class World:
    hub: Hub
    store: Memory
    server: BaseTestServer
    client: ClientSession

    def url(self, path: str) -> str:
        return str(self.server.make_url(path))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    settings = load_settings(home=tmp_path)
    hub = Hub(asyncio.get_running_loop(), listener_queue=200)
    hub.begun({0: 0}, {0: 0})
    store = Memory(hub)
    known = {
        "settings": settings,
        "store": store,
        "hub": hub,
        "keys": KeyRing(keys_path(settings)),
        "buckets": Buckets(),
    }
    others = {field.name: None for field in fields(Gateway)}  # no listener needs them
    app = build_app(Gateway(**cast(Any, others | known)))
    async with TestServer(app) as server, ClientSession() as client:
        yield World(hub, store, server, client)
        hub.close()


def parsed(body: str) -> list[dict[str, Any]]:
    """Events as the HTML standard reads them, where only CR and LF end a line."""
    found: list[dict[str, Any]] = []
    for block in body.split("\n\n"):
        fields = [line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")]
        event = {name: value for name, _, value in fields}
        if "data" in event:
            found.append({**event, "data": json.loads(event["data"])})
    return found


async def test_texts_come_byte_for_byte_whatever_a_reader_takes_for_a_line(world: World) -> None:
    """Case G08."""
    world.store.put(record(request(), 0))
    async with world.client.get(world.url(URL)) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache"
        await told(lambda: world.hub.listeners)
        for offset, text in enumerate(MANY):
            world.hub.offer([record(tokens(0, text), offset)])
        await asyncio.sleep(0)
        world.store.put(record(said(0, "".join(MANY)), 0), record(result(samples=(0,)), 0))
        body = await response.text()
    assert body.splitlines() == body.split("\n")[:-1]
    events = parsed(body)
    assert "".join(event["data"]["text"] for event in events if event["event"] == "tokens") == "".join(MANY)
    assert [event["data"]["text"] for event in events if event["event"] == "sample"] == ["".join(MANY)]
    assert [event["event"] for event in events][-2:] == ["result", "end"]
    document = events[-2]["data"]
    assert (document["id"], document["status"], document["answer"]) == ("q", "done", "7")


async def test_who_comes_back_with_the_last_id_gets_the_rest(world: World) -> None:
    world.store.put(
        record(request(), 0), record(said(0, "a"), 3), record(said(1, "b"), 5), record(result(), 1, at=9)
    )
    async with world.client.get(world.url(URL)) as response:
        first = parsed(await response.text())
    place = next(event["id"] for event in first if event["event"] == "sample")
    async with world.client.get(world.url(URL), headers={"Last-Event-ID": place}) as response:
        again = parsed(await response.text())
    assert [event["event"] for event in again] == ["state", "sample", "result", "end"]
    assert again[1:] == first[2:]
    async with world.client.get(world.url(f"{URL}?last_event_id={place}")) as response:
        assert parsed(await response.text()) == again


@pytest.mark.parametrize(("path", "status"), [("/v1/tasks/none/events", 404), ("/v1/tasks/none/ws", 404)])
async def test_an_unknown_task_is_a_problem_document(world: World, path: str, status: int) -> None:
    async with world.client.get(world.url(path)) as response:
        assert response.status == status
        assert response.headers["Content-Type"].startswith("application/problem+json")


async def test_an_id_that_is_none_of_ours_is_refused_and_named(world: World) -> None:
    world.store.put(record(request(), 0))
    async with world.client.get(world.url(URL), headers={"Last-Event-ID": "17"}) as response:
        assert response.status == 422
        assert (await response.json())["field"] == "Last-Event-ID"


async def test_a_websocket_says_the_same_in_frames(world: World) -> None:
    world.store.put(record(request(), 0))
    async with world.client.ws_connect(world.url("/v1/tasks/q/ws")) as ws:
        await told(lambda: world.hub.listeners)
        world.hub.offer([record(tokens(0, "a\u2028"), 4)])
        world.store.put(record(result(), 1))
        frames = [json.loads(message.data) async for message in ws]
    assert [frame["event"] for frame in frames] == ["state", "state", "tokens", "state", "result", "end"]
    assert frames[2] == {"event": "tokens", "id": "p4", "data": {"sample": 0, "text": "a\u2028"}}
    assert ws.close_code == 1000
    assert world.hub.listeners == 0


@pytest.mark.parametrize("path", [URL, "/v1/tasks/q/ws"])
async def test_a_listener_that_leaves_is_freed_and_the_task_goes_on(world: World, path: str) -> None:
    """Case G11."""
    world.store.put(record(request(callback=CALLBACK), 0))
    if path == URL:
        async with world.client.get(world.url(path)) as response:
            await response.content.readline()
            await told(lambda: world.hub.listeners)
    else:
        async with world.client.ws_connect(world.url(path)) as ws:
            await ws.receive()
            await told(lambda: world.hub.listeners)
    await told(lambda: world.hub.listeners == 0)
    assert world.hub.tasks == 1


@pytest.mark.parametrize("path", [URL, "/v1/tasks/q/ws"])
async def test_a_reader_that_takes_nothing_is_dropped_at_a_bound_and_others_get_all(
    world: World, path: str
) -> None:
    """Case G06: 20 MB of tokens, of which 32 MiB may never be held."""
    world.store.put(record(request(), 0))
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade + key if path.endswith('ws') else ''}\r\n"
    deaf = socket.create_connection((world.server.host, world.server.port))
    deaf.sendall(head.encode())
    await told(lambda: world.hub.listeners == 1)
    piece, count = "x" * 20_000, 1_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with world.client.get(world.url(URL)) as response:
        await told(lambda: world.hub.listeners == 2)
        received = 0
        for offset in range(count):
            world.hub.offer([record(tokens(offset % 2, piece), offset)])
            received += len(await response.content.readany())
        await told(lambda: world.hub.dropped == 1)
        world.store.put(record(result(), 0))
        async for chunk in response.content.iter_any():
            received += len(chunk)
    assert received > len(piece) * count
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB
    assert world.hub.listeners == 0
    deaf.close()


async def test_closing_the_hub_ends_every_connection(world: World) -> None:
    world.store.put(record(request(), 0))
    async with (
        world.client.get(world.url(URL)) as response,
        world.client.ws_connect(world.url("/v1/tasks/q/ws")) as ws,
    ):
        await told(lambda: world.hub.listeners == 2)
        world.hub.close()
        assert "event: end" not in await response.text()
        while (message := await ws.receive()).type is WSMsgType.TEXT:
            pass
        assert message.data == 1001
