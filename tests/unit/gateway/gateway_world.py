"""A gateway without Kafka: what is written is at once in the view, unless a test says otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import aiohttp
from aiohttp import web

from pipeline.errors import TallystreamError
from pipeline.events import Control, Delivery, InferenceRequest, Sample, Status
from pipeline.gateway.app import build_app
from pipeline.gateway.context import Gateway
from pipeline.gateway.intake import Accepted
from pipeline.gateway.key_file import KeyRing, changed_keys
from pipeline.gateway.keys import KeyLimits, new_key
from pipeline.gateway.limits import Buckets
from pipeline.gateway.openai.setup import add_openai
from pipeline.gateway.server import served
from pipeline.gateway.submissions import Submissions
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Output, Place
from pipeline.live.hub import Hub
from pipeline.settings import Settings, load_settings
from pipeline.store.rows import Stored
from pipeline.store.tasks import Load, Task, TaskFilter, TaskPage
from pipeline.topics import REQUESTS

NOW = 1_900_000_000_000
IDLE = Load(())


@dataclass
class FakeStore:
    """The view as a dictionary."""

    by_id: dict[str, Task] = field(default_factory=dict[str, Task])
    drawn: dict[str, tuple[Sample, ...]] = field(default_factory=dict[str, tuple[Sample, ...]])
    called: dict[str, tuple[Delivery, ...]] = field(default_factory=dict[str, tuple[Delivery, ...]])
    busy: Load = IDLE
    asked: list[TaskFilter] = field(default_factory=list[TaskFilter])
    behind: TallystreamError | None = None
    ready: bool = True
    problem: str | None = None
    listener: Any = None

    async def task(self, request_id: str) -> Task | None:
        return self.by_id.get(request_id)

    async def fresh_task(self, request_id: str) -> Task | None:
        await asyncio.sleep(0)
        if request_id not in self.by_id and self.behind is not None:
            raise self.behind
        return self.by_id.get(request_id)

    async def read_to(self, ends: Mapping[Place, int]) -> None:
        if self.behind is not None:
            raise self.behind

    async def tasks(self, wanted: TaskFilter, *, after: str | None = None, limit: int = 50) -> TaskPage:
        self.asked.append(wanted)
        found = [task for task in self.by_id.values() if wanted.tenant in (None, task.request.tenant)]
        return TaskPage(tuple(found[:limit]), None)

    async def samples(self, request_id: str, run: int) -> tuple[Sample, ...]:
        return self.drawn.get(request_id, ())

    async def deliveries(self, request_id: str) -> tuple[Delivery, ...]:
        return self.called.get(request_id, ())

    async def waiting_of(self, tenant: str) -> int:
        return sum(task.request.tenant == tenant and not task.status.terminal for task in self.by_id.values())

    def load(self) -> Load:
        return self.busy

    def listen(self, listener: Any) -> None:
        self.listener = listener

    async def caught_up(self) -> bool:
        return self.ready


@dataclass
class FakeIntake:
    """Kafka that takes everything; ``refuses`` is raised instead, ``gate`` is waited for first."""

    store: FakeStore
    codec: Codec
    written: list[Output] = field(default_factory=list[Output])
    refuses: TallystreamError | None = None
    gate: asyncio.Event | None = None
    shows: bool = True
    seen: Any = None

    async def write(self, record: Output) -> Accepted:
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(0)
        if self.refuses is not None:
            raise self.refuses
        self.written.append(record)
        assert record.value is not None
        event = self.codec.decode(record.value)
        if isinstance(event, InferenceRequest) and self.shows:
            self.store.by_id.setdefault(event.request_id, Task(event, Status.PENDING, NOW, NOW))
            self.seen([Stored(REQUESTS, record.partition, len(self.written), NOW, event)])
        return Accepted(record.topic, record.partition, len(self.written), NOW)

    @property
    def requests(self) -> list[InferenceRequest]:
        events = [self.codec.decode(record.value or b"") for record in self.written]
        return [event for event in events if isinstance(event, InferenceRequest)]

    @property
    def words(self) -> list[Control]:
        events = [self.codec.decode(record.value or b"") for record in self.written]
        return [event for event in events if isinstance(event, Control)]


@dataclass
class World:
    """A gateway that listens, and what stands behind it.

    Attributes:
        now: its clock, ms.
    """

    gateway: Gateway
    app: web.Application
    store: FakeStore
    intake: FakeIntake
    url: str
    session: aiohttp.ClientSession
    keys_file: Path
    now: int = NOW

    def key(self, tenant: str, *, admin: bool = False, **limits: Any) -> str:
        """A new key's text."""
        with changed_keys(self.keys_file) as keys:
            stored, text = new_key(tenant, NOW, admin=admin, limits=KeyLimits(**limits))
            keys.append(stored)
        return text

    async def call(
        self, method: str, path: str, *, key: str | None = None, headers: Any = None, **more: Any
    ) -> tuple[int, Any, Any]:
        """Status, headers and body (JSON as what it says, else text)."""
        sent = dict(headers or {}) | ({"Authorization": f"Bearer {key}"} if key else {})
        async with self.session.request(method, self.url + path, headers=sent, **more) as answer:
            body = await (answer.json(content_type=None) if "json" in answer.content_type else answer.text())
            return answer.status, answer.headers, body

    async def post(self, body: Any = None, **more: Any) -> tuple[int, Any, Any]:
        return await self.call(
            "POST", "/v1/tasks", json={"prompt": "2 + 2?"} if body is None else body, **more
        )

    def finish(self, request_id: str, status: Status = Status.DONE, **changes: Any) -> None:
        task = self.store.by_id[request_id]
        self.store.by_id[request_id] = replace(task, status=status, finished_at=NOW, **changes)


@asynccontextmanager
async def world(folder: Path, *, keyed: bool = False, **overrides: Any) -> AsyncGenerator[World]:
    """A gateway on a free port; ``keyed``: there is a key, so that every call needs one."""
    options = {"port": 0, "read_timeout": 5.0} | overrides.pop("gateway", {})
    settings: Settings = load_settings(home=folder, gateway=options, **overrides)
    codec = Codec()
    store = FakeStore()
    intake = FakeIntake(store, codec)
    path = folder / "keys.json"
    if keyed:
        with changed_keys(path) as keys:
            keys.append(new_key("somebody", NOW)[0])
    hub = Hub(asyncio.get_running_loop(), listener_queue=10)
    holder: list[World] = []
    submissions = Submissions(
        settings, codec, cast("Any", store), cast("Any", intake), lambda: holder[0].now if holder else NOW
    )
    intake.seen = submissions.seen
    gateway = Gateway(
        settings, codec, cast("Any", store), hub, cast("Any", intake), KeyRing(path), submissions, Buckets()
    )
    app = build_app(gateway)
    add_openai(app)
    async with served(app, settings) as url, aiohttp.ClientSession() as session:
        holder.append(World(gateway, app, store, intake, url, session, path))
        yield holder[0]
