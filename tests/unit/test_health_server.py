from __future__ import annotations

import http.client
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import health_server
from pipeline.errors import ConfigError
from pipeline.health_server import health_served, read_agents
from pipeline.ledger import Ledger, Standing
from pipeline.settings import HealthSettings, Settings, load_settings

HERE = ("requests", 1)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path, app="a", slot=2)


@pytest.fixture
def ledger(settings: Settings) -> Iterator[Ledger]:
    ledger = Ledger()
    with health_served(settings, "batcher", ledger, 120.0):
        yield ledger


def get(url: str, method: str = "GET") -> tuple[int, str, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
            body = answer.read()
            return answer.status, answer.headers["Content-Type"], json.loads(body) if body else None
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], json.load(error)


def test_an_agent_is_found_and_says_how_it_is(settings: Settings, ledger: Ledger) -> None:
    (agent,) = read_agents(settings)
    assert (agent.name, agent.body["status"]) == ("batcher-2", "starting")
    ledger.own({HERE: False})
    ledger.measured({HERE: Standing(4, "", 6)})
    status, kind, body = get(agent.url)
    assert (status, kind, body["status"]) == (200, "application/json", "ok")
    assert (body["role"], body["slot"], body["partitions"][0]["lag"]) == ("batcher", 2, 2)
    assert body["uptime_s"] >= 0
    assert get(agent.url, "HEAD")[::2] == (200, None)


@pytest.mark.parametrize(("path", "method", "status"), [("/x", "GET", 404), ("/healthz", "POST", 501)])
def test_anything_else_is_a_problem(
    settings: Settings, ledger: Ledger, path: str, method: str, status: int
) -> None:
    (agent,) = read_agents(settings)
    code, kind, body = get(agent.url.removesuffix("/healthz") + path, method)
    assert (code, kind, body["status"]) == (status, "application/problem+json", status)
    assert body["detail"]


def test_nobody_is_found_after_the_end_and_of_another_pipeline(settings: Settings) -> None:
    with health_served(settings, "worker", Ledger(), 120.0):
        assert read_agents(settings.model_copy(update={"app": "b"})) == []
    assert read_agents(settings) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_broken_note_is_ignored(settings: Settings, ledger: Ledger, text: str) -> None:
    (settings.home / "health" / "broken.json").write_text(text)
    assert [agent.name for agent in read_agents(settings)] == ["batcher-2"]


def test_an_agent_that_does_not_answer_is_named(settings: Settings, ledger: Ledger) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        note = settings.home / "health" / "a-batcher-2.json"
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/healthz"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"url": url}))
        (agent,) = read_agents(settings)
    assert (agent.name, agent.body) == ("batcher-2", {})


@pytest.mark.parametrize("status", ["200 OK", "503 Service Unavailable"])
@pytest.mark.parametrize("stalls", [False, True])
def test_an_agent_that_breaks_off_in_its_answer_is_named(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, status: str, stalls: bool
) -> None:
    monkeypatch.setattr(health_server, "_PATIENCE", 0.2)
    (note,) = (settings.home / "health").glob("*.json")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/healthz"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"url": url}))

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 50\r\n\r\n{{".encode())
                if stalls:
                    over.wait()

        over, thread = threading.Event(), threading.Thread(target=answer)
        thread.start()
        try:
            assert [agent.body for agent in read_agents(settings)] == [{}]
        finally:
            over.set()
            thread.join()


def test_a_port_that_is_taken_is_a_clear_error(settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        health = HealthSettings(port=taken.getsockname()[1])
        with (
            pytest.raises(ConfigError, match="TALLYSTREAM_HEALTH__PORT"),
            health_served(settings.model_copy(update={"health": health}), "batcher", Ledger(), 120.0),
        ):
            pass


def test_it_can_be_switched_off(settings: Settings) -> None:
    off = settings.model_copy(update={"health": HealthSettings(enabled=False)})  # pyright: ignore
    with health_served(off, "batcher", Ledger(), 120.0):
        assert read_agents(settings) == []


def test_who_leaves_before_the_answer_leaves_no_traceback(
    settings: Settings, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (agent,) = read_agents(settings)
    left = threading.Event()

    def leave(*_: Any) -> None:
        left.set()
        raise BrokenPipeError

    monkeypatch.setattr(health_server._Handler, "do_GET", leave)
    with pytest.raises((OSError, http.client.HTTPException)):
        get(agent.url)
    assert left.is_set()
    monkeypatch.undo()
    assert get(agent.url)[0] == 503, "it goes on"
    assert "Traceback" not in capsys.readouterr().err
