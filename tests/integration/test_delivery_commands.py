"""``tallystream deliveries`` on a running pipeline: asked for once, sent once, and remembered over a kill."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipeline.delivery.asked import ASKED
from pipeline.delivery.payload import delivery_id
from pipeline.events import Callback, Delivery, DeliveryState, ErrorInfo
from pipeline.ids import new_request_id
from pipeline.telemetry import now_ms
from pipeline.topics import DELIVERIES, shard_of
from tests.e2e.commands import tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of, killed_before_each_call
from tests.integration.running import Running

pytestmark = pytest.mark.integration


class Hook:
    """An endpoint that answers what the test says, and counts what came by webhook-id."""

    def __init__(self) -> None:
        self.status = 410
        self.came: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                webhook_id = self.headers["webhook-id"]
                hook.came[webhook_id] += 1
                hook.bodies.setdefault(webhook_id, set()).add(body)
                self.send_response(hook.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.name}/hook"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def ends(asker: Asker, state: DeliveryState) -> dict[str, Delivery]:
    """Deliveries that ended so, by request."""
    return {d.request_id: d for d in asker.of(Delivery) if d.state is state}


def ended(asker: Asker, ids: list[str], state: DeliveryState) -> list[Delivery]:
    asker.until(lambda: set(ids) <= ends(asker, state).keys(), f"deliveries that are {state}")
    return [ends(asker, state)[request_id] for request_id in ids]


def test_what_failed_is_sent_again_with_its_id_and_body_and_not_a_third_time(
    asker: Asker, hook: Hook
) -> None:
    request = asker.ask(callback=Callback(hook.url))
    [failed] = ended(asker, [request], DeliveryState.FAILED)
    name = failed.delivery_id
    found = tallystream(
        *("deliveries", "list", "--json", "--state", "failed", "--request", request),
        *("--endpoint", hook.url, "--code", "gone", "--since", "1h"),
        env=environment_of(asker.settings),
    )
    assert found.returncode == 0, found.stderr
    (entry,) = map(json.loads, found.stdout.splitlines())
    assert (entry["delivery_id"], entry["attempt"], entry["endpoint"]) == (name, 1, hook.name)

    hook.status = 204
    dry = tallystream("deliveries", "resend", name, env=environment_of(asker.settings))
    assert (dry.returncode, "add --apply" in dry.stderr) == (0, True), dry.stderr
    first = tallystream("deliveries", "resend", name, "--apply", env=environment_of(asker.settings))
    assert (first.returncode, "1 delivery to be sent again" in first.stderr) == (0, True), first.stderr
    [delivered] = ended(asker, [request], DeliveryState.DELIVERED)
    assert (delivered.delivery_id, delivered.attempt) == (name, 2)
    assert (hook.came, len(hook.bodies[name])) == ({name: 2}, 1)

    again = tallystream("deliveries", "resend", name, "nobody", "--apply", env=environment_of(asker.settings))
    assert again.returncode == 1, again.stderr
    assert "0 deliveries to be sent again, 1 need not be, not there: nobody" in again.stderr
    shown = tallystream("deliveries", "show", name, env=environment_of(asker.settings))
    assert shown.returncode == 0, shown.stderr
    assert all(text in shown.stdout for text in (hook.url, request, "gone 410", "tallystream.result.done"))
    missing = tallystream("deliveries", "show", "nobody", env=environment_of(asker.settings))
    assert (missing.returncode, "deliveries list" in missing.stderr) == (1, True)
    other = asker.ask(callback=Callback(hook.url))
    ended(asker, [other], DeliveryState.DELIVERED)
    assert hook.came[name] == 2, "what came later is through, and this did not come again"


def test_a_resend_killed_before_each_of_its_calls_sends_each_once(
    asker: Asker, hook: Hook, running: Running
) -> None:
    ids = [asker.ask(callback=Callback(hook.url)) for _ in range(4)]
    names = [d.delivery_id for d in ended(asker, ids, DeliveryState.FAILED)]
    hook.status = 204
    os.kill(
        running.supervisor.pids["webhook-0"], signal.SIGKILL
    )  # so that some are read back, and some heard of
    run, kills = killed_before_each_call(
        *("deliveries", "resend", "--apply", "--endpoint", hook.name),
        env=environment_of(asker.settings),
        lot=1,
    )
    assert run.returncode == 0, run.stderr
    assert kills >= 2, "killed before begin and before commit"
    ended(asker, ids, DeliveryState.DELIVERED)
    assert hook.came == dict.fromkeys(names, 2)
    assert {d.attempt for d in ends(asker, DeliveryState.DELIVERED).values() if d.request_id in ids} == {2}


def test_a_disabled_endpoint_is_remembered_over_a_kill_and_enabled_again(
    asker: Asker, hook: Hook, running: Running
) -> None:
    hook.status = 204
    shards = asker.settings.shards
    for shard in range(shards):
        request = next(id_ for _ in range(999) if shard_of(id_ := new_request_id(now_ms()), shards) == shard)
        put_disabled(asker, request, hook)

    os.kill(running.supervisor.pids["webhook-0"], signal.SIGKILL)
    ids = [asker.ask(callback=Callback(hook.url)) for _ in range(4)]
    refused = ended(asker, ids, DeliveryState.FAILED)
    assert {(d.error.code, d.attempt, d.next_due_at) for d in refused if d.error} == {
        ("endpoint_disabled", 0, None)
    }
    assert not hook.came

    listed = tallystream("deliveries", "endpoints", "--json", env=environment_of(asker.settings))
    assert listed.returncode == 0, listed.stderr
    told = next(e for e in map(json.loads, listed.stdout.splitlines()) if e["endpoint"] == hook.name)
    assert (told["disabled"], told["failed"], told["failing_since"]) == (True, shards + 4, 1_000)
    table = tallystream("deliveries", "endpoints", env=environment_of(asker.settings))
    assert "disabled" in table.stdout
    again = tallystream(
        "deliveries", "resend", "--endpoint", hook.url, "--apply", env=environment_of(asker.settings)
    )
    assert (again.returncode, "endpoints --enable" in again.stderr) == (1, True), again.stderr

    enabled = tallystream("deliveries", "endpoints", "--enable", hook.url, env=environment_of(asker.settings))
    assert enabled.returncode == 0, enabled.stderr
    twice = tallystream("deliveries", "endpoints", "--enable", hook.name, env=environment_of(asker.settings))
    assert (twice.returncode, "is not disabled" in twice.stderr) == (1, True), twice.stderr
    by_code = ["--endpoint", hook.name, "--code", "endpoint_disabled"]
    sent = tallystream("deliveries", "resend", *by_code, "--apply", env=environment_of(asker.settings))
    assert sent.returncode == 0, sent.stderr
    ended(asker, ids, DeliveryState.DELIVERED)
    assert {hook.came[d.delivery_id] for d in refused} == {1}


def put_disabled(asker: Asker, request: str, hook: Hook) -> None:
    """As an agent records it that has had nothing but failures for five days."""
    now, name = now_ms(), delivery_id(request, 0, 0, hook.url)
    record = Delivery(
        name,
        request,
        0,
        0,
        "done",
        hook.url,
        "default",
        DeliveryState.FAILED,
        attempt=9,
        created_at=1_000,
        updated_at=now,
        next_due_at=None,
        body=b"{}",
        error=ErrorInfo("endpoint_disabled", ""),
        failing_since=1_000,
    )
    shard = shard_of(request, asker.settings.shards)
    asker.put_bytes(asker.codec.encode(record), shard, name.encode(), list(ASKED), topic=DELIVERIES)
