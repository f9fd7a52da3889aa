"""The routes of OpenAI's API on a gateway without Kafka: errors, waiting, files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pipeline.errors import BrokerDownError, DependencyDownError
from pipeline.events import Status
from pipeline.store.rows import Stored
from pipeline.store.tasks import LaneLoad, Load
from pipeline.topics import RESULTS
from tests.unit.gateway.gateway_world import NOW, World, world
from tests.unit.gateway.openai_results import result_of
from tests.unit.gateway.until import until

CHAT = {"model": "tallystream", "messages": [{"role": "user", "content": "?"}]}
CHATS, RESPONSES, FILES = "/v1/chat/completions", "/v1/responses", "/v1/files"


def end(here: World, request_id: str, status: Status = Status.DONE, **changes: Any) -> None:
    """A task ends: the view shows it, and who listens hears of it."""
    result = result_of(here.store.by_id[request_id].request, status, **changes)
    here.finish(request_id, status, result=result)
    here.gateway.hub.stored([Stored(RESULTS, 0, 1, NOW, result)])


async def asked(here: World) -> str:
    """The id of the one task, once somebody waits for it."""
    await until(lambda: here.gateway.hub.listeners)
    return here.intake.requests[0].request_id


async def test_a_chat_completion_waits(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        call = asyncio.create_task(here.call("POST", CHATS, json=CHAT))
        request_id = await asked(here)
        assert not call.done()
        end(here, request_id)
        status, _, body = await call
        assert (status, body["choices"][0]["message"]["content"]) == (200, "It is 7")
        assert body["id"] == f"chatcmpl-{request_id}"
        assert here.gateway.hub.listeners == 0


async def test_who_has_waited_long_enough_is_let_go(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"wait_limit": 0.01}) as here:
        status, headers, body = await here.call("POST", CHATS, json=CHAT)
        assert (status, body["error"]["code"], headers["x-should-retry"]) == (504, "wait_limit", "false")
        assert here.intake.requests[0].request_id in body["error"]["message"]
        status, _, body = await here.call("POST", RESPONSES, json={"model": "tallystream", "input": "?"})
        assert (status, body["status"]) == (200, "queued")


async def test_a_view_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """The task was accepted: a client that tried again would ask another one."""
    tried: list[str] = []

    async def away(request_id: str) -> None:
        tried.append(request_id)
        raise DependencyDownError("away")

    async with world(tmp_path) as here:
        call = asyncio.create_task(here.call("POST", CHATS, json=CHAT))
        known, here.store.task = here.store.task, away  # type: ignore[method-assign]
        request_id = await asked(here)
        end(here, request_id)
        await until(lambda: tried)
        here.store.task = known  # type: ignore[method-assign]
        end(here, request_id)
        assert (await call)[0] == 200


async def test_a_failure_is_not_asked_again_by_itself(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        call = asyncio.create_task(here.call("POST", CHATS, json=CHAT))
        end(here, await asked(here), Status.CANCELLED)
        status, headers, body = await call
        assert (status, body["error"]["type"], headers["x-should-retry"]) == (500, "server_error", "false")


async def test_errors_have_openais_form(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        key = here.key("acme")

        async def error(
            method: str, path: str, as_: str | None = key, **more: Any
        ) -> tuple[int, str, str, Any]:
            status, headers, body = await here.call(method, path, key=as_, **more)
            assert headers["Content-Type"].startswith("application/json")
            (told,) = body.values()
            assert told["message"]
            return status, told["type"], told["code"], told["param"]

        invalid = "invalid_request_error"
        assert await error("POST", CHATS, None, json=CHAT) == (
            401,
            "authentication_error",
            "unauthorized",
            None,
        )
        assert await error("GET", "/v1/responses/resp_x") == (404, invalid, "not_found", None)
        assert await error("GET", "/v1/responses/x") == (404, invalid, "not_found", None)
        assert await error("GET", "/v1/models/gpt-7") == (404, invalid, "model_not_found", "model")
        assert (await error("DELETE", "/v1/responses/resp_x"))[0] == 405
        assert (await error("GET", CHATS))[0] == 405
        assert (await error("GET", "/v1/chat/nothing"))[0] == 404
        assert await error("POST", CHATS, data=b"{", headers={"Content-Type": "application/json"}) == (
            400,
            invalid,
            "malformed",
            None,
        )
        assert await error("POST", CHATS, json=CHAT | {"n": 0}) == (400, invalid, "invalid_request", "n")
        assert await error("POST", CHATS, json=CHAT | {"n": 65}) == (400, invalid, "invalid_request", "n")
        few = here.key("few", largest_n=1)
        assert await error("POST", CHATS, few, json=CHAT | {"n": 2}) == (
            403,
            "permission_error",
            "forbidden",
            "n",
        )
        here.store.busy = Load((LaneLoad(waiting=1_000_000),))
        assert (await error("POST", CHATS, json=CHAT))[0] == 503
        here.store.busy = Load(())
        here.intake.refuses = BrokerDownError("away")
        assert await error("POST", CHATS, json=CHAT) == (503, "server_error", "broker_down", None)
        status, headers, _ = await here.call("POST", CHATS, key=key, json=CHAT)
        assert (status, headers["Retry-After"]) == (503, "2")
        status, headers, _ = await here.call("GET", "/v1/tasks/nothing", key=key)
        assert headers["Content-Type"].startswith("application/problem+json"), "other paths keep theirs"


async def test_what_is_not_kept_is_not_found(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        begun = await here.call(
            "POST", RESPONSES, json={"model": "tallystream", "input": "?", "background": True}
        )
        response_id = begun[2]["id"]
        assert begun[2]["background"] is True
        here.finish(response_id.removeprefix("resp_"), gone=True)
        status, _, body = await here.call("GET", f"{RESPONSES}/{response_id}")
        assert (status, body["error"]["code"]) == (404, "gone")
        assert (await here.call("GET", f"{RESPONSES}/{response_id}?stream=true&starting_after=x"))[0] == 404


async def test_another_tenants_response_is_not_there(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        mine, theirs = here.key("acme"), here.key("other")
        _, _, begun = await here.call(
            "POST", RESPONSES, key=mine, json={"model": "tallystream", "input": "?", "background": True}
        )
        for method, path in (
            ("GET", f"{RESPONSES}/{begun['id']}"),
            ("POST", f"{RESPONSES}/{begun['id']}/cancel"),
        ):
            assert (await here.call(method, path, key=theirs))[0] == 404
        assert not here.intake.words


def form(data: bytes = b"{}\n", **fields: str) -> aiohttp.FormData:
    made = aiohttp.FormData()
    for name, text in ({"purpose": "batch"} | fields).items():
        made.add_field(name, text)
    made.add_field("file", data, filename="../../in.jsonl", content_type="application/octet-stream")
    return made


async def upload(here: World, **more: Any) -> tuple[int, Any]:
    status, _, body = await here.call("POST", FILES, **more)
    return status, body


async def test_a_file_is_kept_for_its_tenant(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        mine, theirs, all_of_them = here.key("acme"), here.key("other"), here.key("root", admin=True)
        status, file = await upload(here, data=form(b"a\n" * 200_000), key=mine)
        assert (status, file["bytes"], file["purpose"], file["object"]) == (200, 400_000, "batch", "file")
        path = f"{FILES}/{file['id']}"
        assert (await here.call("GET", f"{path}/content", key=mine))[2] == "a\n" * 200_000
        for call in (("GET", path), ("GET", f"{path}/content"), ("DELETE", path)):
            assert (await here.call(*call, key=theirs))[0] == 404
        assert (await here.call("GET", FILES, key=theirs))[2]["data"] == []
        assert (await here.call("GET", path, key=all_of_them))[0] == 200
        assert (await here.call("DELETE", path, key=mine))[2] == {
            "id": file["id"],
            "object": "file",
            "deleted": True,
        }
        assert (await here.call("GET", path, key=mine))[0] == 404
        assert left(tmp_path) == []


def left(home: Path) -> list[str]:
    """What lies in the folder of files."""
    return [path.name for path in (home / "files").iterdir()]


@pytest.mark.parametrize(
    "name", ["%2e%2e%2fkeys", "..%2fkeys.json", "file-" + "0" * 31 + "%2f", "%00", "x" * 4000]
)
async def test_a_files_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    async with world(tmp_path) as here:
        for path in (f"{FILES}/{name}", f"{FILES}/{name}/content", f"/v1/batches/{name}"):
            assert (await here.call("GET", path))[0] in (400, 404)


async def test_uploads_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, gateway={"file_limit": 2048, "read_timeout": 0.5}) as here:
        assert (await upload(here, data=form(b"x" * 3000)))[0] == 413
        assert (await upload(here, data=form(purpose="fine-tune")))[1]["error"]["param"] == "purpose"
        assert (await upload(here, data=form(other="x")))[1]["error"]["param"] == "other"
        ttl = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "1"}
        assert (await upload(here, data=form(**ttl)))[1]["error"]["param"] == "expires_after.seconds"
        assert (await upload(here, json={"purpose": "batch"}))[0] == 415
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        for body in (
            b"",
            b"--x\r\n",
            b"--x--\r\n",
            b"--x\r\nContent-Disposition: form-data",
            b"nothing of a form",
        ):
            assert (await upload(here, data=body, headers=kind))[0] == 400, body
        assert (await upload(here, data=b"", headers={"Content-Type": "multipart/form-data"}))[0] == 400

        async def slow() -> Any:
            yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            await asyncio.sleep(5)

        assert (await upload(here, data=slow(), headers=kind))[0] == 408
        assert left(tmp_path) == []


async def test_pages_of_files(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        ids = {(await upload(here, data=form()))[1]["id"] for _ in range(5)}
        seen: list[str] = []
        after = ""
        while True:
            _, _, page = await here.call("GET", f"{FILES}?limit=2{after}")
            seen += [file["id"] for file in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert len(seen) == 5
        assert set(seen) == ids
        _, _, page = await here.call("GET", f"{FILES}?order=asc")
        assert [file["id"] for file in page["data"]] == seen[::-1]
        for query, param in (("limit=0", "limit"), ("order=up", "order"), ("after=file-1", "after")):
            status, _, body = await here.call("GET", f"{FILES}?{query}")
            assert (status, body["error"]["param"]) == (400, param)


async def test_a_batch_of_no_file(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        body = {"input_file_id": "file-1", "endpoint": CHATS, "completion_window": "24h"}
        assert (await here.call("POST", "/v1/batches", json=body))[0] == 404
        for field, value in (("completion_window", "1h"), ("endpoint", "/v1/embeddings")):
            status, _, told = await here.call("POST", "/v1/batches", json=body | {field: value})
            assert (status, told["error"]["param"]) == (400, field)
