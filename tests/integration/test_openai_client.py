"""OpenAI's own client against a gateway process, on a Kafka and a pipeline of its own, with the scripted engine."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest

from pipeline.free_ports import free_ports
from pipeline.gateway.key_file import changed_keys, keys_path
from pipeline.gateway.keys import KeyLimits, new_key
from pipeline.health_server import read_agents
from tests.eventually import eventually
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

MODEL = "tallystream"
SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
PATIENCE = 120.0


@dataclass
class Listener:
    """Keeps every callback as it comes."""

    calls: list[tuple[bytes, dict[str, str]]] = field(default_factory=list[tuple[bytes, dict[str, str]]])
    url: str = ""


@dataclass(frozen=True)
class Front:
    """What the tests talk to."""

    pipeline: OwnPipeline
    client: openai.OpenAI
    base_url: str
    listener: Listener
    key_of: Callable[..., str]

    def client_of(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key=key, max_retries=0, timeout=PATIENCE)

    def gateway_pid(self) -> int:
        (gateway,) = [agent for agent in read_agents(self.pipeline.settings) if agent.name == "gateway-0"]
        return gateway.body["pid"]

    def called(self, kind: str, subject: str) -> tuple[bytes, dict[str, str]]:
        """Wait for a callback."""
        found: list[tuple[bytes, dict[str, str]]] = []

        def came() -> bool:
            for body, headers in list(self.listener.calls):
                told = json.loads(body)
                if (told["type"], told["data"]["id"]) == (kind, subject):
                    found.append((body, headers))
            return bool(found)

        eventually(came)
        return found[0]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("front")
    (port,) = free_ports(1)
    secrets_file = folder / "secrets.json"
    secrets_file.write_text(json.dumps({"default": SECRET}))
    env = {
        "TALLYSTREAM_GATEWAY__PORT": str(port),
        "TALLYSTREAM_GATEWAY__WAIT_LIMIT": "60",
        "TALLYSTREAM_GATEWAY__BATCH_WINDOW": "8",
        "TALLYSTREAM_WEBHOOK__ALLOW_PRIVATE": "true",
        "TALLYSTREAM_WEBHOOK__SECRETS_FILE": str(secrets_file),
    }
    script = '{"min_ms": 200, "max_ms": 400, "rows": 4}'
    with ExitStack() as stack:
        listener = stack.enter_context(_listening())
        pipeline = stack.enter_context(own_pipeline(folder, script=script, env=env))

        def key_of(tenant: str, **limits: Any) -> str:
            with changed_keys(keys_path(pipeline.settings)) as keys:
                stored, text = new_key(tenant, 1, limits=KeyLimits(**limits))
                keys.append(stored)
            return text

        key = key_of("acme")
        stack.enter_context(pipeline.agents(["gateway"]))
        base_url = f"http://127.0.0.1:{port}/v1"
        client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=10, timeout=PATIENCE)
        yield Front(pipeline, client, base_url, listener, key_of)


class _listening:
    def __enter__(self) -> Listener:
        listener = Listener()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.calls.append((body, dict(self.headers)))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        listener.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        return listener

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_models(front: Front) -> None:
    names = [model.id for model in front.client.models.list()]
    assert MODEL in names
    assert front.client.models.retrieve(names[0]).id == names[0]
    with pytest.raises(openai.NotFoundError):
        front.client.models.retrieve("gpt-7")


def test_a_chat_completion_waits_for_its_answer(front: Front) -> None:
    done = front.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "answers=seven"}],
        max_tokens=20,
        seed=1,
        temperature=0,
    )
    choice = done.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("The answer is seven", "stop")
    assert done.usage is not None
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    assert done.id.startswith("chatcmpl-")


def test_several_samples_vote_and_are_all_shown(front: Front) -> None:
    done = front.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "answers=8,7,7"}],
        n=3,
        metadata={"mine": "yes"},
        extra_body={"kind": "answer", "priority": 1},
    )
    texts = [choice.message.content for choice in done.choices]
    every = ["The answer is 7", "The answer is 8", "The answer is 7"]
    decided = texts == every[::2]  # those that agree came first, and the third was not waited for
    assert decided or texts == every
    metadata = done.to_dict()["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["answer"], metadata["mine"], metadata["status"]) == ("7", "yes", "done")
    assert [vote["count"] for vote in json.loads(str(metadata["votes"]))] == ([2] if decided else [2, 1])


@pytest.mark.parametrize("n", [1, 3])
def test_a_chat_stream_is_the_same_text(front: Front, n: int) -> None:
    stream = front.client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "answers=one"}],
        n=n,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage, chunks = "", None, 0
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.index == 0 and choice.delta.content:
                text += choice.delta.content
                chunks += 1
    assert text == "The answer is one"
    assert usage is not None
    assert n > 1 or chunks > 1, "tokens as they come"


def test_a_background_response(front: Front) -> None:
    client = front.client
    begun = client.responses.create(
        model=MODEL, input="answers=blue", instructions="Be brief.", background=True, metadata={"a": "b"}
    )
    assert begun.status in ("queued", "in_progress")
    eventually(lambda: client.responses.retrieve(begun.id).status == "completed")
    done = client.responses.retrieve(begun.id)
    assert done.output_text == "The answer is blue"
    assert done.usage is not None
    assert done.usage.output_tokens > 0
    assert done.metadata is not None
    assert (done.metadata["a"], done.metadata["answer"]) == ("b", "The answer is blue")
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.delete(begun.id)
    assert refused.value.status_code == 405
    assert "can not be deleted" in refused.value.message


def test_a_background_response_is_streamed_and_gone_on_with(front: Front) -> None:
    client = front.client
    events = list(client.responses.create(model=MODEL, input="answers=green", background=True, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == "The answer is green"
    assert len(deltas) > 1, "tokens as they come"
    request_id = events[0].response.id  # type: ignore[union-attr]
    after = deltas[0]
    rest = list(client.responses.retrieve(request_id, stream=True, starting_after=after.sequence_number))
    told = "".join(event.delta for event in rest if event.type == "response.output_text.delta")
    assert after.delta + told == "The answer is green"
    assert "response.created" not in [event.type for event in rest]
    assert rest[-1].type == "response.completed"


def test_a_response_is_cancelled(front: Front) -> None:
    client = front.client
    begun = client.responses.create(
        model=MODEL, input="Take your time.", background=True, extra_body={"n": 60, "mode": "standard"}
    )
    assert client.responses.cancel(begun.id).status == "cancelled"
    assert client.responses.retrieve(begun.id).status == "cancelled"


def test_a_response_that_is_waited_for_calls_back(front: Front) -> None:
    client = front.client
    done = client.responses.create(
        model=MODEL,
        input=[{"role": "user", "content": [{"type": "input_text", "text": "answers=red"}]}],
        extra_body={"callback": {"url": front.listener.url}, "session": "s1"},
    )
    assert (done.status, done.output_text) == ("completed", "The answer is red")
    body, headers = front.called("response.completed", done.id)
    event = client.webhooks.unwrap(body, headers, secret=SECRET)
    assert event.type == "response.completed"
    assert event.data.id == done.id
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body + b" ", headers, secret=SECRET)


def test_errors_are_the_clients_exceptions(front: Front) -> None:
    with pytest.raises(openai.AuthenticationError):
        front.client_of("tsk_nobody_knows").models.list()
    with pytest.raises(openai.NotFoundError):
        front.client.responses.retrieve("resp_nothing")
    with pytest.raises(openai.NotFoundError, match="model"):
        front.client.chat.completions.create(model="gpt-7", messages=[{"role": "user", "content": "?"}])
    with pytest.raises(openai.BadRequestError) as refused:
        front.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "?"}], presence_penalty=0.5
        )
    assert refused.value.param == "presence_penalty"
    with pytest.raises(openai.BadRequestError) as refused:
        front.client.responses.create(model=MODEL, input="?", previous_response_id="resp_1")
    assert (refused.value.param, "session" in refused.value.message) == ("previous_response_id", True)
    slow = front.client_of(front.key_of("slow", rate=0.01))
    slow.models.list()
    with pytest.raises(openai.RateLimitError) as limited:
        slow.models.list()
    assert int(limited.value.response.headers["Retry-After"]) > 0


def test_the_same_idempotency_key_is_the_same_response(front: Front) -> None:
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    ids = {
        front.client.responses.create(model=MODEL, input="answers=once", extra_headers=headers).id
        for _ in range(2)
    }
    assert len(ids) == 1


def _lines(count: int, name: str = "line") -> list[dict[str, Any]]:
    return [
        {
            "custom_id": f"{name}-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": MODEL, "messages": [{"role": "user", "content": f"answers={number}"}]},
        }
        for number in range(count)
    ]


def _uploaded(front: Front, tmp_path: Path, lines: list[Any]) -> str:
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    file = front.client.files.create(file=path, purpose="batch")
    assert (file.bytes, file.filename) == (path.stat().st_size, "in.jsonl")
    return file.id


def _ended(front: Front, batch_id: str) -> Any:
    ends = ("completed", "cancelled", "failed")
    eventually(lambda: front.client.batches.retrieve(batch_id).status in ends, PATIENCE)
    return front.client.batches.retrieve(batch_id)


def _rows(front: Front, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    return [json.loads(line) for line in front.client.files.content(file_id).text.splitlines()]


def test_a_batch_with_bad_lines(front: Front, tmp_path: Path) -> None:
    client, lines = front.client, _lines(20)
    lines[3]["body"]["logit_bias"] = {"1": 5}
    lines[7] = "no JSON"  # type: ignore[call-overload]
    file_id = _uploaded(front, tmp_path, lines)
    batch = client.batches.create(
        input_file_id=file_id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"of": "mine"},
        extra_body={"callback": {"url": front.listener.url}},
    )
    done = _ended(front, batch.id)
    assert (done.status, done.metadata) == ("completed", {"of": "mine"})
    counts = done.request_counts
    assert (counts.total, counts.completed, counts.failed) == (20, 18, 2)
    rows = {row["custom_id"]: row for row in _rows(front, done.output_file_id)}
    assert rows.keys() == {f"line-{number}" for number in range(20)} - {"line-3", "line-7"}
    answer = rows["line-5"]["response"]["body"]["choices"][0]["message"]["content"]
    assert answer == "The answer is 5"
    bad = {row["error"]["line"]: row for row in _rows(front, done.error_file_id)}
    assert bad.keys() == {4, 8}
    assert (bad[4]["custom_id"], bad[4]["error"]["param"]) == ("line-3", "logit_bias")
    assert bad[8]["error"]["code"] == "malformed"
    body, headers = front.called("batch.completed", batch.id)
    event = client.webhooks.unwrap(body, headers, secret=SECRET)
    assert event.type == "batch.completed"
    assert batch.id in [each.id for each in client.batches.list()]
    stranger = front.client_of(front.key_of("stranger"))
    for secret in (lambda: stranger.files.retrieve(file_id), lambda: stranger.batches.retrieve(batch.id)):
        with pytest.raises(openai.NotFoundError):
            secret()
    assert done.output_file_id in [file.id for file in client.files.list(purpose="batch_output")]
    assert client.files.delete(file_id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(file_id)


def test_a_batch_cancelled_half_way(front: Front, tmp_path: Path) -> None:
    client, count = front.client, 60
    file_id = _uploaded(front, tmp_path, _lines(count))
    batch = client.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 4)  # type: ignore[union-attr]
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = _ended(front, batch.id)
    assert done.status == "cancelled"
    answered = [row["custom_id"] for row in _rows(front, done.output_file_id)]
    stopped = [row["custom_id"] for row in _rows(front, done.error_file_id)]
    assert {row["error"]["code"] for row in _rows(front, done.error_file_id)} == {"batch_cancelled"}
    assert 4 <= len(answered) < count
    assert sorted(answered + stopped) == sorted(f"line-{number}" for number in range(count))


def test_a_batch_outlives_its_gateway(front: Front, tmp_path: Path) -> None:
    client, count = front.client, 40
    file_id = _uploaded(front, tmp_path, _lines(count))
    batch = client.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    eventually(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 8)  # type: ignore[union-attr]
    os.kill(front.gateway_pid(), signal.SIGKILL)
    done = _ended(front, batch.id)
    counts = done.request_counts
    assert (done.status, counts.total, counts.completed, counts.failed) == ("completed", count, count, 0)
    answered = [row["custom_id"] for row in _rows(front, done.output_file_id)]
    assert sorted(answered) == sorted(f"line-{number}" for number in range(count))
