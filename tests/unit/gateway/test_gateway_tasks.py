from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pipeline.errors import BrokerDownError, DependencyDownError
from pipeline.events import (
    Callback,
    ControlAction,
    HopTimings,
    Kind,
    Mode,
    Result,
    Session,
    Status,
    Usage,
    Vote,
)
from pipeline.gateway.documents import iso
from pipeline.store.tasks import LaneLoad, Load
from tests.unit.gateway.gateway_world import World, world

KEY = {"Idempotency-Key": "order 66"}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def result(request_id: str, status: Status = Status.DONE) -> Result:
    return Result(
        request_id=request_id,
        run=0,
        revision=1,
        status=status,
        tenant="default",
        priority=3,
        mode=Mode.STANDARD,
        kind=Kind.ANSWER,
        answer="4",
        chosen_sample=1,
        confidence=0.9,
        votes=(Vote("4", 2, 0.8, 0.9, (1, 2)),),
        reasoning=(),
        usage=Usage(1, 2, 3, 3, 2),
        timings=HopTimings(1, 2, None, None, 5),
        why="agreed",
    )


async def test_a_task_is_accepted_once_kafka_has_it(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.intake.gate = asyncio.Event()
        call = asyncio.create_task(here.post())
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not call.done()
        here.intake.gate.set()
        status, headers, body = await call
        assert status == 202
        task = f"/v1/tasks/{body['id']}"
        assert headers["Location"] == task
        assert body == {
            "id": here.intake.requests[0].request_id,
            "status": "pending",
            "run": 0,
            "links": {"self": task, "events": f"{task}/events", "ws": f"{task}/ws", "cancel": task},
        }


async def test_every_field_reaches_kafka(tmp_path: Path) -> None:
    body = {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}],
        "mode": "deep",
        "priority": 0,
        "kind": "vision",
        "sampling": {"n": 4, "temperature": 1, "seed": 7, "stop": ["\n"], "top_k": 5},
        "deadline_ms": 1000,
        "callback": {"url": "https://example.org/hook", "events": ["first_answer", "done"]},
        "session": {"user": "u", "session": "s"},
        "images": ["aGk="],
        "metadata": {"a": "b"},
        "cache": "allow",
    }
    async with world(tmp_path) as here:
        assert (await here.post(body))[0] == 202
        (request,) = here.intake.requests
    assert [turn.content for turn in request.messages] == ["Be brief.", "2 + 2?"]
    assert (request.mode, request.priority, request.kind) == (Mode.DEEP, 0, Kind.VISION)
    assert (request.sampling.n, request.sampling.temperature, request.sampling.seed) == (4, 1.0, 7)
    assert (request.sampling.stop, request.sampling.top_k) == (("\n",), 5)
    assert request.callback == Callback("https://example.org/hook", events=("first_answer", "done"))
    assert (request.session, request.images, request.cache) == (Session("u", "s"), (b"hi",), "allow")
    assert (request.deadline_ms, request.metadata, request.tenant) == (1000, {"a": "b"}, "default")


async def test_null_is_the_default(tmp_path: Path) -> None:
    names = [
        "messages",
        "mode",
        "priority",
        "kind",
        "sampling",
        "deadline_ms",
        "callback",
        "metadata",
        "cache",
    ]
    async with world(tmp_path) as here:
        await here.post({"prompt": "x", **dict.fromkeys(names)})
        await here.post({"prompt": "x"})
        first, second = here.intake.requests
        assert (first.mode, first.priority, first.sampling) == (second.mode, second.priority, second.sampling)
        assert first.priority == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"prompt": "x", "priority": 6}, "priority"),
        ({"prompt": "x", "priority": -1}, "priority"),
        ({"prompt": "x", "priority": 2.5}, "priority"),
        ({"prompt": "x", "priority": 3.0}, "priority"),
        ({"prompt": "x", "priority": "3"}, "priority"),
        ({"prompt": "x", "priority": True}, "priority"),
        ({"prompt": "x", "mode": "FAST"}, "mode"),
        ({"prompt": "x", "wrong": 1}, "wrong"),
        ({"prompt": "x", "sampling": {"n": 65}}, "sampling.n"),
        ({"prompt": "x", "sampling": {"n": 2**40}}, "sampling.n"),
        ({"prompt": "x", "sampling": {"top_k": 2**31}}, "sampling.top_k"),
        ({"prompt": "x", "sampling": {"temperature": True}}, "sampling.temperature"),
        ({"prompt": "x", "sampling": {"heat": 1}}, "sampling.heat"),
        ({"prompt": " "}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "messages"),
        ({"messages": [{"role": "robot", "content": "y"}]}, "messages.0.role"),
        ({"prompt": "x", "callback": {"url": "https://e.org/\r\nX-Evil: 1"}}, "callback.url"),
        ({"prompt": "x", "callback": {"url": "http://127.0.0.1/"}}, "callback.url"),
        ({"prompt": "x", "callback": {"url": "https://e.org/", "events": ["never"]}}, "callback.events.0"),
        ({"prompt": "x", "session": {"user": "a\r\nb", "session": "s"}}, "session.user"),
        ({"prompt": "x", "images": ["no base64!"]}, "images"),
        ({"prompt": "x", "kind": "code", "tests": ""}, "tests"),
        ({"prompt": "x", "metadata": {"a": 1}}, "metadata.a"),
        ({"prompt": "x", "metadata": {"a": "b" * 70_000}}, "metadata"),
        ([], "body"),
        ("text", "body"),
    ],
)
async def test_what_is_refused_names_its_field(tmp_path: Path, body: Any, field: str) -> None:
    async with world(tmp_path) as here:
        status, headers, problem = await here.post(body)
        assert (status, problem["field"]) == (422, field)
        assert headers["Content-Type"].startswith("application/problem+json")
        assert (problem["status"], problem["title"]) == (422, "Unprocessable Entity")
        assert not here.intake.written


@pytest.mark.parametrize(
    "data",
    [
        b'{"p":"\xff\xfe"}',
        b"",
        b"{",
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "x", "priority": NaN}',
        b"[" * 100_000,
        b'{"prompt": "x"} more',
    ],
)
async def test_what_is_no_json_is_told_where(tmp_path: Path, data: bytes) -> None:
    async with world(tmp_path) as here:
        headers = {"Content-Type": "application/json"}
        status, _, problem = await here.call("POST", "/v1/tasks", data=data, headers=headers)
        assert status in (400, 422)
        if problem["code"] == "malformed":
            assert "line" in problem["detail"]
        assert len(json.dumps(problem)) < 1_000


async def test_a_task_is_told_in_full(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        request_id = (await here.post({"prompt": "2 + 2?", "metadata": {"a": "b"}}))[2]["id"]
        status, _, task = await here.call("GET", f"/v1/tasks/{request_id}")
        assert (status, task["status"], task["answer"], task["votes"]) == (200, "pending", None, [])
        assert "samples" not in task
        here.finish(request_id, result=result(request_id))
        _, _, task = await here.call(
            "GET", f"/v1/tasks/{request_id}?include=samples,request&include=deliveries"
        )
    assert (task["status"], task["answer"], task["confidence"]) == ("done", "4", 0.9)
    assert task["votes"][0] == {
        "answer": "4", "count": 2, "confidence": 0.8, "score": 0.9, "samples": [1, 2], "review": None
    }  # fmt: skip
    assert (task["samples"], task["deliveries"], task["request"]["prompt"]) == ([], [], "2 + 2?")
    assert (task["created_at"], task["metadata"]) == ("2030-03-17T17:46:40.000Z", {"a": "b"})
    assert task["timings"]["first_sample_at"] is None


async def test_what_can_not_be_included_is_named(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        status, _, problem = await here.call("GET", "/v1/tasks/x?include=everything")
        assert (status, problem["field"]) == (422, "include")


@pytest.mark.parametrize(
    "text", ["%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..%5cx", "%00", "a" * 10_000, "%ff", "x"]
)
async def test_an_id_that_nothing_has(tmp_path: Path, text: str) -> None:
    from yarl import URL

    async with world(tmp_path) as here:
        async with here.session.get(URL(f"{here.url}/v1/tasks/{text}", encoded=True)) as answer:
            body = await answer.text()
        assert answer.status in (400, 404)
        assert len(body) < 1_000


async def test_an_id_of_any_printable_characters_has_its_links(tmp_path: Path) -> None:
    from dataclasses import replace

    from yarl import URL

    async with world(tmp_path) as here:
        request_id = (await here.post())[2]["id"]
        task = here.store.by_id[request_id]
        odd = "a/b?c#d %41é"
        here.store.by_id[odd] = replace(task, request=replace(task.request, request_id=odd))
        _, _, listed = await here.call("GET", "/v1/tasks")
        link = next(each["links"]["self"] for each in listed["tasks"] if each["id"] == odd)
        async with here.session.get(URL(here.url + link, encoded=True)) as answer:
            assert (answer.status, (await answer.json())["id"]) == (200, odd)


async def test_cancelling(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        request_id = (await here.post())[2]["id"]
        status, _, task = await here.call("DELETE", f"/v1/tasks/{request_id}")
        assert (status, task["id"]) == (202, request_id)
        (word,) = here.intake.words
        assert (word.request_id, word.run, word.action) == (request_id, 0, ControlAction.CANCEL)
        here.finish(request_id, Status.CANCELLED)
        status, _, task = await here.call("DELETE", f"/v1/tasks/{request_id}")
        assert (status, task["status"], len(here.intake.words)) == (200, "cancelled", 1)


async def test_a_task_that_is_gone(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        request_id = (await here.post())[2]["id"]
        here.finish(request_id, gone=True)
        for method in ("GET", "DELETE"):
            status, _, problem = await here.call(method, f"/v1/tasks/{request_id}")
            assert (status, problem["code"]) == (410, "gone")


async def test_filters_of_the_list(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        query = (
            "status=done,failed&status=running&since=2026-05-01T00:00:00Z&until=2026-05-02T00:00:00%2B02:00"
        )
        assert (await here.call("GET", f"/v1/tasks?{query}&tenant=acme&batch=b"))[0] == 200
        (wanted,) = here.store.asked
        assert wanted.statuses == (Status.DONE, Status.FAILED, Status.RUNNING)
        assert (wanted.tenant, wanted.batch) == ("acme", "b")
        assert (iso(wanted.since or 0), iso(wanted.until or 0)) == (
            "2026-05-01T00:00:00.000Z",
            "2026-05-01T22:00:00.000Z",
        )
        for wrong, field in (
            ("status=over", "status"),
            ("since=yesterday", "since"),
            ("until=9" * 30, "until"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=²", "limit"),
        ):
            status, _, problem = await here.call("GET", f"/v1/tasks?{wrong}")
            assert (status, problem["field"]) == (422, field)


async def test_kafka_away_is_never_an_acceptance(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.intake.refuses = BrokerDownError("away")
        status, headers, problem = await here.post()
        assert (status, problem["code"], problem["retriable"]) == (503, "broker_down", True)
        assert int(headers["Retry-After"]) >= 1


async def replayed(here: World, body: Any, headers: Any) -> tuple[int, bool, str]:
    status, sent, answer = await here.post(body, headers=headers)
    return status, sent.get("Idempotency-Replayed") == "true", answer.get("id", answer.get("code"))


async def test_the_same_key_and_body_are_the_same_task(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        status, again, request_id = await replayed(here, {"prompt": "a", "priority": 3}, KEY)
        assert (status, again) == (202, False)
        assert await replayed(here, {"prompt": "a"}, KEY) == (202, True, request_id)
        assert await replayed(here, {"prompt": "b"}, KEY) == (422, False, "idempotency_conflict")
        assert await replayed(here, {"prompt": "a", "deadline_ms": 5}, KEY) == (
            422,
            False,
            "idempotency_conflict",
        )
        other = await replayed(here, {"prompt": "a"}, {"Idempotency-Key": "order 67"})
        assert (other[1], other[2] != request_id) == (False, True)
        assert len(here.intake.requests) == 2


async def test_fifty_equal_posts_at_once_are_one_record(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        answers = await asyncio.gather(*(replayed(here, {"prompt": "a"}, KEY) for _ in range(50)))
        assert {status for status, _, _ in answers} == {202}
        assert len({request_id for _, _, request_id in answers}) == 1
        assert sum(not again for _, again, _ in answers) == 1
        assert len(here.intake.requests) == 1


async def test_a_key_names_a_new_task_after_its_time(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        ids = [(await replayed(here, {"prompt": "a"}, KEY))[2]]
        for _ in range(2):
            here.now += 86_400_001
            ids.append((await replayed(here, {"prompt": "b"}, KEY))[2])
            here.store.by_id[ids[-1]] = _accepted(here, ids[-1])
            assert (await replayed(here, {"prompt": "b"}, KEY))[2] == ids[-1]
        assert len(set(ids)) == 3


def _accepted(here: World, request_id: str) -> Any:
    from dataclasses import replace

    return replace(here.store.by_id[request_id], accepted_at=here.now)


async def test_who_came_second_with_another_body_is_told(tmp_path: Path) -> None:
    """Another gateway's record is before ours."""
    async with world(tmp_path) as one, world(tmp_path) as other:
        first = (await replayed(one, {"prompt": "a"}, KEY))[2]
        theirs = one.store.by_id[first]
        write = other.intake.write

        async def overtaken(record: Any) -> Any:
            other.store.by_id[first] = theirs
            return await write(record)

        other.intake.write = overtaken  # pyright: ignore[reportAttributeAccessIssue]
        assert await replayed(other, {"prompt": "b"}, KEY) == (422, False, "idempotency_conflict")
        del other.store.by_id[first]
        assert (await replayed(other, {"prompt": "a"}, KEY))[::2] == (202, first)


async def test_a_view_that_is_behind_can_not_say_whether_a_key_is_new(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.store.behind = DependencyDownError("behind")
        assert (await replayed(here, {"prompt": "a"}, KEY))[0] == 503
        assert not here.intake.written


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "é", "a\tb"])
async def test_what_is_no_key(tmp_path: Path, key: str) -> None:
    async with world(tmp_path) as here:
        status, _, problem = await here.post(headers={"Idempotency-Key": key})
        assert (status, problem["field"]) == (400, "Idempotency-Key")


async def test_too_much_waits(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.store.busy = Load((LaneLoad(waiting=450),), unread=50, finished_per_second=10)
        status, headers, problem = await here.post()
        assert (status, headers["Retry-After"], problem["code"]) == (503, "10", "overloaded")
        here.store.busy = Load((LaneLoad(waiting=401),))
        assert (await here.post())[0] == 503
        here.store.busy = Load((LaneLoad(waiting=400),))
        assert (await here.post())[0] == 202


async def test_fast_is_not_taken_when_it_would_not_be_fast(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.store.busy = Load((LaneLoad(waiting=40, opened=40),))
        assert (await here.post({"prompt": "x", "mode": "fast"}))[0] == 503
        assert (await here.post({"prompt": "x", "mode": "deep"}))[0] == 202


async def test_a_burst_does_not_slip_past_the_limit(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"backlog_limit": 5}) as here:
        here.intake.shows = False
        statuses = [answer[0] for answer in await asyncio.gather(*(here.post() for _ in range(20)))]
        assert (statuses.count(202), statuses.count(503)) == (5, 15)


async def test_what_is_not_written_does_not_wait(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"backlog_limit": 1}) as here:
        here.intake.refuses = BrokerDownError("away")
        for _ in range(3):
            assert (await here.post())[2]["code"] == "broker_down"
        here.intake.refuses = None
        assert (await here.post())[0] == 202


async def test_a_task_goes_on_with_its_callers_trace(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.post(headers={"traceparent": TRACE, "tracestate": "vendor=7"})
        await here.post(headers={"traceparent": "none"})
        first, second = here.intake.written
    assert first.headers == (("traceparent", TRACE.encode()), ("tracestate", b"vendor=7"))
    assert second.headers == ()


async def test_calls_are_told_by_their_route_refused_ones_too(
    tmp_path: Path, told_spans: InMemorySpanExporter
) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme")
        await here.post(key=key)
        await here.call("GET", "/v1/tasks/one", key=key)
        await here.call("GET", "/v1/tasks/one")
        await here.call("GET", "/no/such/page", key=key)
        here.intake.refuses = BrokerDownError("away")
        headers = [("tracestate", "a=1"), ("tracestate", "b=2"), ("traceparent", TRACE)]
        headers.append(("Authorization", f"Bearer {key}"))
        await here.session.post(f"{here.url}/v1/tasks", headers=headers, json={"prompt": "2 + 2?"})
        for page in ("/healthz", "/metrics"):
            await here.call("GET", page)
    found = told_spans.get_finished_spans()
    statuses = [dict(span.attributes or {})["http.response.status_code"] for span in found]
    assert [(span.name, status) for span, status in zip(found, statuses, strict=True)] == [
        ("POST /v1/tasks", 202),
        ("GET /v1/tasks/{id}", 404),
        ("GET /v1/tasks/{id}", 401),
        ("GET", 404),
        ("POST /v1/tasks", 503),
    ]
    assert [dict(span.attributes or {}).get("error.type") for span in found] == [None] * 4 + ["503"]
    assert found[-1].context.trace_state.to_header() == "a=1,b=2"
