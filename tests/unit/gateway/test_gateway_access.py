from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import re
import socket
import stat
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import AuthenticationError, ConfigError
from pipeline.gateway.access import check_binding, is_loopback
from pipeline.gateway.key_file import KeyRing, changed_keys, read_keys
from pipeline.gateway.keys import new_key, principal_of_key
from pipeline.gateway.limits import Buckets
from pipeline.settings import load_settings
from tests.unit.gateway.gateway_world import NOW, World, world

JSON = {"Content-Type": "application/json"}


async def test_without_a_key_nothing_is_told(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        for headers in ({}, {"Authorization": "Bearer tsk_x_y"}, {"Authorization": "Basic eDp5"}):
            status, sent, problem = await here.call("GET", "/v1/tasks", headers=headers)
            assert (status, problem["code"]) == (401, "unauthorized")
            assert sent["WWW-Authenticate"].startswith("Bearer")
        assert (await here.call("GET", "/healthz"))[0] == 200
        assert (await here.call("GET", "/nowhere"))[0] == 404


async def test_a_tenant_sees_its_own_tasks_only(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        acme, other, admin = here.key("acme"), here.key("other"), here.key("ops", admin=True)
        request_id = (await here.post(key=acme))[2]["id"]
        assert here.intake.requests[0].tenant == "acme"
        for key, status in ((acme, 200), (other, 404), (admin, 200)):
            assert (await here.call("GET", f"/v1/tasks/{request_id}", key=key))[0] == status
        assert (await here.call("DELETE", f"/v1/tasks/{request_id}", key=other))[0] == 404
        assert (await here.call("GET", f"/v1/tasks/{request_id}/events", key=other))[0] == 404
        await here.call("GET", "/v1/tasks?tenant=acme", key=other)
        await here.call("GET", "/v1/tasks", key=admin)
        assert [wanted.tenant for wanted in here.store.asked] == ["other", None]


async def test_tenants_do_not_share_idempotency_keys(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        headers = {"Idempotency-Key": "k"}
        ids = {(await here.post(key=here.key(name), headers=headers))[2]["id"] for name in ("a", "b")}
        assert len(ids) == 2


async def test_keys_are_taken_and_revoked_while_it_runs(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.call("GET", "/v1/tasks"))[0] == 200
        key = here.key("acme")
        assert (await here.call("GET", "/v1/tasks"))[0] == 401
        assert (await here.call("GET", "/v1/tasks", key=key))[0] == 200
        with changed_keys(here.keys_file) as keys:
            keys.clear()
        assert (await here.call("GET", "/v1/tasks", key=key))[0] == 401
        assert (await here.call("GET", "/v1/tasks"))[0] == 401, "the last key taken away lets nobody in"


async def test_a_broken_file_of_keys_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme")
        assert (await here.call("GET", "/v1/tasks", key=key))[0] == 200
        here.keys_file.write_text("{")
        assert (await here.call("GET", "/v1/tasks", key=key))[0] == 200


def test_a_key_is_kept_as_a_digest(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with changed_keys(path) as keys:
        stored, text = new_key("acme", NOW)
        keys.append(stored)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert text.split("_", 2)[2] not in path.read_text()
    assert read_keys(path) == (stored,)
    principal = principal_of_key(text, {stored.id: stored})
    assert principal is not None
    assert (principal.tenant, principal.admin) == ("acme", False)
    for wrong in (
        text[:-1],
        text + "x",
        text.replace("tsk", "TSK"),
        f"tsk_{stored.id}_",
        "",
        "tsk",
        "\udcff",
    ):
        assert principal_of_key(wrong, {stored.id: stored}) is None
    assert KeyRing(path).principal(text) == principal
    with pytest.raises(AuthenticationError):
        KeyRing(path).principal("tsk_0_0")


async def test_limits_of_a_key(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme", largest_n=2, priorities=(3, 4), waiting=2)
        for body, field in (
            ({"prompt": "x", "priority": 0, "sampling": {"n": 1}}, "priority"),
            ({"prompt": "x", "sampling": {"n": 3}}, "sampling.n"),
            ({"prompt": "x", "mode": "deep"}, "sampling.n"),
        ):
            status, _, problem = await here.post(body, key=key)
            assert (status, problem["field"]) == (403, field)
        fast = {"prompt": "x", "mode": "fast"}
        assert [(await here.post(fast, key=key))[0] for _ in range(3)] == [202, 202, 429]
        assert int((await here.post(fast, key=key))[1]["Retry-After"]) >= 1
        here.finish(next(iter(here.store.by_id)))
        assert (await here.post(fast, key=key))[0] == 202


async def test_a_burst_of_one_tenant_does_not_slip_past_its_limit(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme", waiting=3)
        here.intake.shows = False
        statuses = [answer[0] for answer in await asyncio.gather(*(here.post(key=key) for _ in range(10)))]
        assert (statuses.count(202), statuses.count(429)) == (3, 7)
        assert (await here.post(key=here.key("other")))[0] == 202


def test_the_rate_of_a_key() -> None:
    stored, text = new_key("a", NOW)
    principal = principal_of_key(text, {stored.id: stored})
    assert principal is not None
    from dataclasses import replace

    from pipeline.errors import TooManyRequestsError
    from pipeline.gateway.keys import KeyLimits

    limited, buckets = replace(principal, limits=KeyLimits(rate=2.0)), Buckets()
    for _ in range(1000):
        buckets.take(principal, 0.0)
    buckets.take(limited, 0.0)
    buckets.take(limited, 0.0)
    with pytest.raises(TooManyRequestsError) as caught:
        buckets.take(limited, 0.25)
    assert caught.value.retry_after == pytest.approx(0.25)
    buckets.take(limited, 0.5)
    with pytest.raises(TooManyRequestsError):
        buckets.take(limited, 0.5)


async def test_a_rate_is_kept(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme", rate=0.01)
        assert (await here.call("GET", "/v1/tasks", key=key))[0] == 200
        status, headers, _ = await here.call("GET", "/v1/tasks", key=key)
        assert (status, int(headers["Retry-After"]) > 1) == (429, True)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
    ],
)
def test_what_is_this_machine(host: str, local: bool) -> None:
    assert is_loopback(host) is local
    settings = load_settings(gateway={"host": host})
    check_binding(settings, keys=True)
    if local:
        check_binding(settings, keys=False)
    else:
        with pytest.raises(ConfigError, match="keys add"):
            check_binding(settings, keys=False)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("[::1]:8080", 200), ("evil.example", 403), ("a b", 403), ("", 403)],
)
async def test_without_keys_only_this_machine_is_answered(tmp_path: Path, host: str, status: int) -> None:
    async with world(tmp_path) as here:
        for path in ("/v1/tasks", "/healthz"):
            assert (await here.call("GET", path, headers={"Host": host}))[0] == status
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme")
        assert (await here.call("GET", "/v1/tasks", key=key, headers={"Host": "any.example"}))[0] == 200


@pytest.mark.parametrize(
    ("headers", "with_cookie", "without"),
    [
        ({}, 403, 202),
        ({"Sec-Fetch-Site": "same-origin"}, 202, 202),
        ({"Sec-Fetch-Site": "none"}, 202, 202),
        ({"Sec-Fetch-Site": "cross-site"}, 403, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403, 403),
        ({"Origin": "SELF"}, 202, 202),
        ({"Origin": "https://evil.example"}, 403, 403),
        ({"Origin": "null"}, 403, 403),
    ],
)
async def test_another_sites_page_can_not_ask(
    tmp_path: Path, headers: dict[str, str], with_cookie: int, without: int
) -> None:
    async with world(tmp_path / "open") as here:
        sent = {name: here.url if value == "SELF" else value for name, value in headers.items()}
        assert (await here.post(headers=sent))[0] == without
    async with world(tmp_path / "keyed", keyed=True) as here:
        key = here.key("acme")
        sent = {name: here.url if value == "SELF" else value for name, value in headers.items()}
        cookie = {"Cookie": f"tallystream_key={key}"}
        assert (await here.post(headers=sent | cookie))[0] == with_cookie
        assert (await here.call("GET", "/v1/tasks", headers=cookie))[0] == 200
        assert (await here.post(headers=sent, key=key))[0] == 202


async def test_headers_of_every_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for path in ("/healthz", "/v1/tasks", "/nowhere"):
            _, headers, _ = await here.call("GET", path)
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["Server"] == "tallystream"


@pytest.mark.parametrize(
    ("told", "safe"),
    [("abc-1", True), ("x" * 128, True), ("x" * 129, False), ("a%0d%0aSet-Cookie: x=1", False), ("", False)],
)
async def test_the_id_of_a_call(tmp_path: Path, told: str, safe: bool) -> None:
    async with world(tmp_path) as here:
        _, headers, problem = await here.call("GET", "/v1/tasks/x", headers={"X-Request-Id": told})
        assert (headers["X-Request-Id"] == told) is safe
        assert problem["request_id"] == headers["X-Request-Id"]
        assert "Set-Cookie" not in headers


async def test_bodies_are_json(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for kind in ("text/plain", "application/json; charset=latin-1", "application/x-www-form-urlencoded"):
            status, _, problem = await here.call(
                "POST", "/v1/tasks", data=b'{"prompt": "x"}', headers={"Content-Type": kind}
            )
            assert (status, problem["field"]) == (415, "Content-Type")
        packed = {**JSON, "Content-Encoding": "br"}
        status, _, problem = await here.call("POST", "/v1/tasks", data=b"{}", headers=packed)
        assert (status, problem["field"]) == (415, "Content-Encoding")


async def test_a_packed_body_is_unpacked(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        for name, data in (
            ("gzip", gzip.compress(b'{"prompt": "x"}')),
            ("deflate", zlib.compress(b'{"prompt": "x"}')),
        ):
            headers = {**JSON, "Content-Encoding": name}
            assert (await here.call("POST", "/v1/tasks", data=data, headers=headers))[0] == 202
            assert (await here.call("POST", "/v1/tasks", data=b"no " + data, headers=headers))[0] == 400
            assert (await here.call("POST", "/v1/tasks", data=data[:-6], headers=headers))[0] == 400


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_has_a_limit(tmp_path: Path, packed: bool) -> None:
    body = b'{"prompt": "' + b"x" * 2_000_000 + b'"}'
    data = gzip.compress(body) if packed else body
    headers = {**JSON, **({"Content-Encoding": "gzip"} if packed else {})}
    async with world(tmp_path) as here:
        status, _, problem = await here.call("POST", "/v1/tasks", data=data, headers=headers)
        assert (status, problem["code"]) == (413, "body_too_large")


async def test_a_body_of_unknown_length_has_a_limit(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 65_536

    async with world(tmp_path) as here:
        status, _, problem = await here.call("POST", "/v1/tasks", data=endless(), headers=JSON)
        assert (status, problem["code"]) == (413, "body_too_large")


async def test_a_small_body_that_unpacks_to_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    zeros = zlib.compressobj(wbits=31)
    data = b"".join(zeros.compress(bytes(10_000_000)) for _ in range(60)) + zeros.flush()
    async with world(tmp_path) as here:
        tracemalloc.start()
        status, _, _ = await here.call(
            "POST", "/v1/tasks", data=data, headers={**JSON, "Content-Encoding": "gzip"}
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert status == 413
    assert peak < 30_000_000


async def test_a_packed_body_may_have_several_members(tmp_path: Path) -> None:
    data = gzip.compress(b'{"prompt"') + gzip.compress(b': "two members"}')
    async with world(tmp_path) as here:
        headers = {**JSON, "Content-Encoding": "gzip"}
        assert (await here.call("POST", "/v1/tasks", data=data, headers=headers))[0] == 202
        assert here.intake.requests[0].prompt == "two members"


def send(here: World, text: bytes) -> socket.socket:
    port = int(here.url.rsplit(":", 1)[1])
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(text)
    return connection


def read_all(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


HEAD = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n"


async def test_slow_bodies_are_given_up_and_hinder_nobody(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"read_timeout": 1.0}) as here:
        slow = [send(here, HEAD + b"{") for _ in range(100)]
        assert (await here.post())[0] == 202
        answers = await asyncio.gather(*(asyncio.to_thread(read_all, each) for each in slow))
        assert all(b" 408 " in answer.split(b"\r\n", 1)[0] for answer in answers)
        assert all(b"request_timed_out" in answer for answer in answers)


async def test_slow_headers_are_given_up(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"header_timeout": 0.5}) as here:
        begun = [b"", b"GET", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "]
        slow = [send(here, text) for text in begun]
        assert await asyncio.gather(*(asyncio.to_thread(read_all, each) for each in slow)) == [b""] * 4


CHUNKED = HEAD.replace(b"Content-Length: 2000", b"Transfer-Encoding: chunked")


async def test_a_body_that_breaks_off_leaves_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with world(tmp_path) as here:
        answer = await asyncio.to_thread(read_all, send(here, CHUNKED + b'5\r\n{"a":\r\nno chunk\r\n'))
        assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        gone = send(here, HEAD + b"{")
        gone.close()
        assert (await here.post())[0] == 202
    assert all(record.exc_info is None for record in caplog.records)


async def test_what_is_no_http_leaves_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with world(tmp_path) as here:
        for text in (
            b"\x16\x03\x01\x02\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\n\r\n",
        ):
            answer = await asyncio.to_thread(read_all, send(here, text))
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert all(record.exc_info is None for record in caplog.records)


async def test_a_bug_is_logged_and_not_told(tmp_path: Path) -> None:
    async with world(tmp_path) as here:

        async def broken(*_: Any, **__: Any) -> Any:
            raise ValueError("secret")

        here.store.tasks = broken  # pyright: ignore[reportAttributeAccessIssue]
        status, _, problem = await here.call("GET", "/v1/tasks")
        assert (status, problem["code"]) == (500, "internal_error")
        assert "secret" not in json.dumps(problem)


async def test_a_bug_in_the_middle_of_a_stream_breaks_it_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("secret")

    async with world(tmp_path) as here:
        request_id = (await here.post())[2]["id"]
        here.store.history = broken  # pyright: ignore[reportAttributeAccessIssue]
        call = b"GET /v1/tasks/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n" % request_id.encode()
        connection = send(here, call)
        with contextlib.suppress(ConnectionResetError):
            answer = await asyncio.to_thread(read_all, connection)
            assert answer.count(b"HTTP/1.1") <= 1
    assert all(record.exc_info is None for record in caplog.records if record.name.startswith("aiohttp"))


async def test_what_is_not_there(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.call("GET", "/v2"))[2]["code"] == "not_found"
        status, headers, problem = await here.call("PUT", "/v1/tasks")
        assert (status, problem["code"]) == (405, "method_not_allowed")
        assert set(re.split(r",\s*", headers["Allow"])) == {"GET", "HEAD", "POST"}


async def test_readiness(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        assert (await here.call("GET", "/readyz"))[0] == 503, "it does not hear of what is drawn yet"
        here.gateway.hub.begun({0: 0}, {0: 0})
        assert (await here.call("GET", "/readyz"))[0] == 200
        here.store.ready = False
        assert (await here.call("GET", "/readyz"))[0] == 503
