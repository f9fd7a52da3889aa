"""``/healthz`` and ``/metrics`` of an agent, served from a thread of its own; and where to find it on this machine."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pipeline import __version__
from pipeline.errors import ConfigError
from pipeline.health import document
from pipeline.ledger import Ledger
from pipeline.partition_metrics import partitions_told
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_PATIENCE = 2.0
_FOLDER = "health"

Answer = Callable[[], tuple[int, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """What an agent on this machine says of itself; ``body`` is empty if it does not answer."""

    name: str
    url: str
    body: dict[str, Any]


@contextmanager
def health_served(settings: Settings, role: str, ledger: Ledger, limit: float) -> Generator[None]:
    """Serve ``/healthz`` and ``/metrics`` while the block runs, and leave a note of where, unless it is switched off.

    Args:
        limit: seconds without movement that are a stall.

    Raises:
        ConfigError: the address can not be used.
    """
    if not settings.health.enabled:
        yield
        return
    began = time.monotonic()

    def answer() -> tuple[int, dict[str, Any]]:
        now = time.monotonic()
        status, body = document(ledger.state, now, limit)
        who = {"role": role, "slot": settings.slot, "pid": os.getpid(), "version": __version__}
        return status, {"status": body.pop("status"), **who, "uptime_s": round(now - began, 1), **body}

    server = _Server(settings, answer)
    url = f"http://{settings.health.host}:{server.server_address[1]}/healthz"
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        with noted(settings, role, url), partitions_told(ledger):
            log.info("health", url=url)
            yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def noted(settings: Settings, role: str, url: str) -> Generator[None]:
    """Leave a note of where this process says how it is, while the block runs."""
    note = _folder(settings) / f"{settings.app}-{role}-{settings.slot}.json"
    _write(note, {"app": settings.app, "name": f"{role}-{settings.slot}", "pid": os.getpid(), "url": url})
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def read_agents(settings: Settings) -> list[AgentHealth]:
    """Ask every agent of this pipeline that runs on this machine; the notes of those that died are ignored."""
    found: list[AgentHealth] = []
    for path in sorted(_folder(settings).glob("*.json")):
        try:
            note = json.loads(path.read_text())
            os.kill(note["pid"], 0)
            app, name, pid, url = note["app"], note["name"], note["pid"], note["url"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if app != settings.app:
            continue
        body = _ask(url)
        if body.get("pid", pid) == pid:  # else another process has the port by now
            found.append(AgentHealth(name, url, body))
    return found


def _ask(url: str) -> dict[str, Any]:
    try:
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)
    except (OSError, ValueError, HTTPException):  # at any point: it may be killed, or be too busy to say more
        return {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, settings: Settings, answer: Answer) -> None:
        host, port = settings.health.host, settings.health.port
        self.answer = answer
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"TALLYSTREAM_HEALTH__HOST, TALLYSTREAM_HEALTH__PORT: can not listen on {host}:{port}: "
                f"{error.strerror}; port 0 takes a free one"
            ) from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who leaves before the answer is no news either; anything else keeps its traceback."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = _PATIENCE
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tallystream", ""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                status, body = self.server.answer()
                self._send(status, json.dumps(body).encode(), "application/json")
            case "/metrics":
                self._send(HTTPStatus.OK, generate_latest(), CONTENT_TYPE_LATEST)
            case _:
                self._problem(HTTPStatus.NOT_FOUND, "the only paths here are /healthz and /metrics")

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Also what the base class finds wrong with a request is a problem document."""
        self.close_connection = True
        self._problem(HTTPStatus(code), message or "")

    def log_message(self, format: str, *args: Any) -> None:
        """A probe every few seconds is no news."""

    def _problem(self, status: HTTPStatus, detail: str) -> None:
        body = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
        self._send(status, json.dumps(body).encode(), "application/problem+json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _folder(settings: Settings) -> Path:
    return settings.home / _FOLDER


def _write(path: Path, note: dict[str, Any]) -> None:
    """Whole or not at all: another process may read it now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(note))
    part.replace(path)
