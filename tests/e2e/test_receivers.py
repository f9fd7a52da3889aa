"""The example receivers verify, drop repeats, and still know them after a restart; in each language that is here."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.delivery.signature import decode_key, sign

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECRET, OTHER = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
BODY = json.dumps(
    {"type": "tallystream.result.done", "data": {"request_id": "q-1", "answer": "六 = 6"}}, ensure_ascii=False
).encode()
PRINTED = "tallystream.result.done q-1 六 = 6"


@pytest.fixture(scope="module", params=["python3", "node", "go"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How to run the receiver; Go is compiled once, without any module from outside."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "python3":
        return ["python3", str(EXAMPLES / "receive_webhooks.py")]
    if request.param == "node":
        return ["node", str(EXAMPLES / "receive_webhooks.mjs")]
    folder = tmp_path_factory.mktemp("go")
    built = folder / "receiver"
    here = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    subprocess.run(
        ["go", "build", "-o", str(built), str(EXAMPLES / "receive_webhooks.go")],
        check=True,
        env=os.environ | here,
    )
    return [str(built)]


class Receiver:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        self.lines = child.stdout
        self.port = int(self.lines.readline().split()[-1])

    def post(
        self, body: bytes = BODY, *, secrets: tuple[str, ...] = (SECRET,), age: int = 0, **headers: str
    ) -> int:
        keys = [decode_key(secret) for secret in secrets]
        signed = sign(keys, "msg_1", int(time.time()) - age, BODY)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", body, signed | headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code


@contextmanager
def running(program: list[str], seen: Path) -> Iterator[Receiver]:
    child = subprocess.Popen(
        [*program, "0", str(seen)],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | {"WEBHOOK_SECRET": SECRET, "PYTHONUTF8": "1"},
    )
    try:
        yield Receiver(child)
    finally:
        child.kill()
        child.wait()


def test_a_callback_is_taken_once_however_often_it_comes(program: list[str], tmp_path: Path) -> None:
    with running(program, tmp_path / "seen") as receiver:
        assert receiver.post() == 204
        assert receiver.lines.readline().strip() == PRINTED
        assert receiver.post(age=5) == 204
    with running(program, tmp_path / "seen") as receiver:
        assert receiver.post(secrets=(OTHER, SECRET)) == 204
        other = {"webhook-id": "msg_2"}
        assert receiver.post(**other) == 401
    with running(program, tmp_path / "none") as receiver:
        assert receiver.post() == 204  # one that was killed before has printed nothing but its port
        assert receiver.lines.readline().strip() == PRINTED


def test_what_is_not_ours_is_refused_and_not_remembered(program: list[str], tmp_path: Path) -> None:
    with running(program, tmp_path / "seen") as receiver:
        assert receiver.post(BODY.replace(b"q-1", b"q-2")) == 401
        assert receiver.post(secrets=(OTHER,)) == 401
        assert receiver.post(age=301) == 401
        assert receiver.post(age=-301) == 401
        assert receiver.post(**{"webhook-timestamp": "soon"}) == 401
        assert receiver.post(**{"webhook-signature": ""}) == 401
        assert receiver.post(**{"webhook-signature": "v1,AAAA v1a,BBBB 😀"[:16]}) == 401
        assert receiver.post() == 204
        assert receiver.lines.readline().strip() == PRINTED
