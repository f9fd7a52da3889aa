"""A gateway whose store is a few lists, for looking at the page without Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from aiohttp.test_utils import TestClient, TestServer

from agents.web.routes import add_page
from pipeline.events import (
    Callback,
    Chain,
    Delivery,
    DeliveryState,
    ErrorInfo,
    FinishReason,
    HopTimings,
    InferenceRequest,
    Mode,
    Outcome,
    Result,
    Role,
    Sample,
    SampleTimings,
    Status,
    Sureness,
    Usage,
    Vote,
)
from pipeline.gateway.app import build_app
from pipeline.gateway.context import Gateway
from pipeline.gateway.key_file import KeyRing, changed_keys
from pipeline.gateway.keys import new_key
from pipeline.gateway.limits import Buckets
from pipeline.kafka.dead_letters import Cause
from pipeline.replay.letters import Letter
from pipeline.settings import load_settings
from pipeline.store.rows import Stored
from pipeline.store.tasks import LaneLoad, Load, Task, TaskFilter, TaskPage
from pipeline.telemetry import now_ms

NASTY = "</pre></textarea><script>alert(1)</script><b onclick='x'>\u202egnp.exe"
"""What a model or a stranger may write: markup, and an order to write backwards."""


@dataclass
class FakeStore:
    """What the page asks of a store, from lists."""

    found: list[Task] = field(default_factory=list[Task])
    drawn: list[Sample] = field(default_factory=list[Sample])
    told: list[Delivery] = field(default_factory=list[Delivery])
    dead: list[Letter] = field(default_factory=list[Letter])
    lanes: tuple[LaneLoad, ...] = (LaneLoad(),) * 6
    problem: str | None = None
    listeners: list[Callable[[Sequence[Stored]], None]] = field(default_factory=list)
    asked: list[TaskFilter] = field(default_factory=list[TaskFilter])

    async def fresh_task(self, request_id: str) -> Task | None:
        return next((each for each in self.found if each.request.request_id == request_id), None)

    async def tasks(self, wanted: TaskFilter, *, after: str | None = None, limit: int = 50) -> TaskPage:
        self.asked.append(wanted)
        mine = [each for each in self.found if wanted.tenant in (None, each.request.tenant)]
        return TaskPage(tuple(mine[:limit]), "more" if len(mine) > limit else None)

    async def samples(self, request_id: str, run: int) -> tuple[Sample, ...]:
        return tuple(each for each in self.drawn if each.request_id == request_id)

    async def deliveries(self, request_id: str) -> tuple[Delivery, ...]:
        newest = {each.delivery_id: each for each in self.told if each.request_id == request_id}
        return tuple(newest.values())

    async def attempts(self, delivery_id: str) -> tuple[Delivery, ...]:
        return tuple(each for each in self.told if each.delivery_id == delivery_id)

    async def recent_deliveries(self, limit: int = 50) -> tuple[Delivery, ...]:
        return tuple({each.delivery_id: each for each in self.told}.values())

    async def letters(self, limit: int = 50) -> tuple[Letter, ...]:
        return tuple(self.dead)

    def load(self) -> Load:
        return Load(self.lanes)

    def listen(self, listener: Callable[[Sequence[Stored]], None]) -> None:
        self.listeners.append(listener)


@dataclass
class FakeSubmissions:
    """Lets everything in, under one id."""

    request_id: str = "new"
    taken: list[InferenceRequest] = field(default_factory=list[InferenceRequest])
    keys: list[str | None] = field(default_factory=list)

    async def submit(self, request: InferenceRequest, principal: object, key: str | None = None) -> Any:
        self.keys.append(key)
        self.taken.append(replace(request, request_id=self.request_id))
        return type("Submitted", (), {"request": self.taken[-1]})


@dataclass
class World:
    """A page that can be asked."""

    client: TestClient[Any, Any]
    store: FakeStore
    submissions: FakeSubmissions
    keys: dict[str, str]

    async def text(self, path: str, status: int = 200, **headers: str) -> str:
        response = await self.client.get(path, headers={"Accept": "text/html", **headers})
        text = await response.text()
        assert response.status == status, text
        return text


@asynccontextmanager
async def served(
    folder: Path, store: FakeStore | None = None, *, tenants: Sequence[str] = ()
) -> AsyncIterator[World]:
    """Serve the page; with tenants each has a key, and ``admin``'s is an admin's."""
    settings = load_settings(bootstrap="127.0.0.1:1", home=folder)
    path = folder / "keys.json"
    keys: dict[str, str] = {}
    if tenants:
        with changed_keys(path) as stored:
            for tenant in tenants:
                key, keys[tenant] = new_key(tenant, 1, admin=tenant == "admin")
                stored.append(key)
    store, submissions = store or FakeStore(), FakeSubmissions()
    nobody = cast(Any, None)
    gateway = Gateway(
        settings=settings,
        codec=nobody,
        store=cast(Any, store),
        hub=cast(Any, SimpleNamespace(close=lambda: None)),
        intake=nobody,
        keys=KeyRing(path),
        submissions=cast(Any, submissions),
        buckets=Buckets(),
    )
    app = build_app(gateway)
    add_page(app)
    async with TestClient(TestServer(app)) as client:
        yield World(client, store, submissions, keys)


def sample(index: int, text: str, request_id: str = "q", *, role: Role = Role.ANSWER) -> Sample:
    times = SampleTimings(1_000, 1_200, 1_250, 2_000 + index)
    return Sample(
        request_id=request_id,
        run=0,
        sample_index=index,
        role=role,
        path="direct",
        text=text,
        finish_reason=FinishReason.STOP,
        prompt_tokens=40,
        completion_tokens=len(text.split()),
        mean_logprob=-0.2,
        seed=index,
        temperature=0.5,
        timings=times,
        worker="w",
    )


def voted(
    answers: Sequence[str | None],
    request_id: str = "q",
    *,
    prompt: str = "What is 7 + 5?",
    status: Status = Status.DONE,
    texts: Sequence[str] | None = None,
    tenant: str = "default",
    mode: Mode = Mode.STANDARD,
    at: int | None = None,
    callback: Callback | None = None,
) -> tuple[Task, list[Sample]]:
    """A task that has ended, with a sample an answer; ``None`` abstains. The first answer's group wins."""
    now = at or now_ms() - 90_000
    groups: dict[str, list[int]] = {}
    for index, answer in enumerate(answers):
        if answer is not None:
            groups.setdefault(answer, []).append(index)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    votes = tuple(
        Vote(answer, len(members), 0.9 - 0.1 * place, round(0.93 / (place + 1), 3), tuple(members))
        for place, (answer, members) in enumerate(ranked)
    )
    place_of = {index: place for place, (_, members) in enumerate(ranked) for index in members}
    says = texts or [
        f"Step by step … The answer is {answer}." if answer else "I do not know." for answer in answers
    ]
    samples = [sample(index, text, request_id) for index, text in enumerate(says)]
    chains = tuple(
        Chain(
            sample_index=index,
            role=Role.ANSWER,
            path=("direct", "chain_of_thought", "step_by_step")[index % 3],
            text=says[index],
            answer=answer,
            score=votes[place_of[index]].score if index in place_of else 0.0,
            finish_reason=FinishReason.STOP,
            note="with the most votes; confidence 0.91" if place_of.get(index) == 0 else "",
            outcome=(
                Outcome.ABSTAINED if answer is None else Outcome.WON if place_of[index] == 0 else Outcome.LOST
            ),
            group=place_of.get(index),
            sureness=Sureness(0.91, 0.88, 2, 0 if place_of.get(index) == 0 else 1),
        )
        for index, answer in enumerate(answers)
    )
    request = InferenceRequest(request_id, prompt, tenant=tenant, mode=mode, callback=callback)
    winner = votes[0] if votes else None
    result = Result(
        request_id=request_id,
        run=0,
        revision=0,
        status=status,
        tenant=tenant,
        priority=3,
        mode=mode,
        kind=request.kind,
        answer=winner.answer if winner else None,
        chosen_sample=winner.samples[0] if winner else None,
        confidence=0.93 if winner else None,
        votes=votes,
        reasoning=chains,
        usage=Usage(120, 86, 41, len(answers), len(answers)),
        timings=HopTimings(now, now + 120, now + 1_450, now + 2_300, now + 2_420),
        error=None if winner else ErrorInfo("no_answer", "no sample holds an answer"),
        why=f"{len(winner.samples)} of {len(answers)} samples agree" if winner else "",
        callback=callback,
    )
    task = Task(
        request,
        status,
        now,
        now + 2_420,
        now + 120,
        now + 1_450,
        now + 2_420,
        len(answers),
        len(answers),
        result,
    )
    return task, samples


def running(
    request_id: str = "r", *, prompt: str = "What is 9 + 9?", drawn: int = 1
) -> tuple[Task, list[Sample]]:
    """A task of which some samples have come."""
    now = now_ms()
    samples = [sample(index, f"I think … The answer is {18 + index}.", request_id) for index in range(drawn)]
    request = InferenceRequest(request_id, prompt)
    status = Status.RUNNING if drawn else Status.PENDING
    return Task(request, status, now - 2_000, now, now - 1_800, now - 900, None, 3, drawn), samples


def delivery(
    request_id: str = "q",
    state: DeliveryState = DeliveryState.DELIVERED,
    *,
    attempt: int = 1,
    delivery_id: str = "d",
    url: str = "https://hooks.example.com/answers",
) -> Delivery:
    now = now_ms()
    failed = state is not DeliveryState.DELIVERED
    return Delivery(
        delivery_id=delivery_id,
        request_id=request_id,
        run=0,
        revision=0,
        event="tallystream.result.done",
        url=url,
        secret_id="default",
        state=state,
        attempt=attempt,
        created_at=now - 60_000,
        updated_at=now - 30_000 + attempt,
        next_due_at=now + 270_000 if state is DeliveryState.PENDING else None,
        body=b"",
        status_code=503 if failed else 204,
        error=ErrorInfo("http_error", "the endpoint answered 503", retriable=True) if failed else None,
    )


def letter(offset: int = 17, *, message: str = "3 bytes are no record", replayed: bool = False) -> Letter:
    now = now_ms()
    cause = Cause("too_short", message, "batcher", 1, "requests", 3, 9, now - 70_000, now - 70_000)
    return Letter((0, offset), now - 65_000, cause, b"key-of-it", 3, now if replayed else None)
