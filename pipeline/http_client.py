"""A gateway over HTTP, for the command line: calls that are repeated where that is safe, and events that go on."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from pipeline.errors import ConfigError, GatewayDownError, RefusedError
from pipeline.event_stream import EventStreamReader, StreamEvent

_CONNECT, _READ = 5.0, 30.0
_SILENCE = 60.0
"""Seconds without a word, not even a heartbeat, after which a stream counts as lost."""
_PAUSE = 1.0
_LONGEST_EVENT = 64 * 1024 * 1024
_ONCE_MORE = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.BAD_GATEWAY})
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a gateway is, and the key that it wants, if it does."""

    url: str
    key: str = field(default="", repr=False)


class HttpClient:
    """Calls one gateway. All calls raise:

    Raises:
        GatewayDownError: it does not answer, or not now, for ``patience`` seconds.
        RefusedError: it will not do this; says what is wrong, and with which field.
    """

    def __init__(
        self,
        remote: Remote,
        *,
        patience: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Raises:
            ConfigError: the URL is none of HTTP, or the key can be none.
        """
        if not (remote.key.isascii() and remote.key.isprintable()):
            raise ConfigError("TALLYSTREAM_KEY is no API key: it holds characters that none has")
        self.url = _address(remote.url)
        self._patience, self._sleep, self._clock = patience, sleep, clock
        headers = {"Authorization": f"Bearer {remote.key}"} if remote.key else {}
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(_READ, connect=_CONNECT),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def submit(self, body: Document, key: str) -> Document:
        """Ask; the same key is the same task, so this is repeated until the gateway has said that it has it."""
        return self._call("POST", "/v1/tasks", json=body, headers={"Idempotency-Key": key})

    def task(self, request_id: str, *include: str) -> Document:
        """A task's document, with what else is to be in it."""
        query = {"include": ",".join(include)} if include else {}
        return self._call("GET", _path(request_id), params=query)

    def tasks(self, limit: int, **query: Any) -> Iterator[Document]:
        """Documents of tasks, newest first, page by page, ``limit`` at most."""
        cursor: str | None = None
        while limit > 0:
            page = query | {"limit": str(min(limit, 100))} | ({"cursor": cursor} if cursor else {})
            found = self._call("GET", "/v1/tasks", params=page)
            yield from found["tasks"]
            limit -= len(found["tasks"])
            cursor = found["cursor"]
            if cursor is None:
                return

    def cancel(self, request_id: str) -> Document:
        """Order a task to stop; the document that it has now."""
        return self._call("DELETE", _path(request_id))

    def events(self, request_id: str, *, within: float | None = None) -> Iterator[StreamEvent]:
        """A task's events to its end; a connection that is lost is taken up again behind the last of them.

        Args:
            within: seconds, after which nothing more is read.
        """
        began = heard = self._clock()
        until = math.inf if within is None else began + within
        last = ""
        while self._clock() < until:
            try:
                for event in self._stream(request_id, last, until):
                    last, heard = event.id, self._clock()
                    yield event
                    if event.name == "end":
                        return
            except GatewayDownError:
                if self._clock() < until and self._clock() - heard > self._patience:
                    raise
            self._sleep(max(min(_PAUSE, until - self._clock()), 0.0))

    def _stream(self, request_id: str, last: str, until: float) -> Iterator[StreamEvent]:
        reader = EventStreamReader(_LONGEST_EVENT)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        silence = max(min(_SILENCE, until - self._clock()), 0.01)
        timeout = httpx.Timeout(silence, connect=_CONNECT)
        path = f"{_path(request_id)}/events"
        try:
            with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if response.status_code != HTTPStatus.OK:
                    response.read()
                    raise self._problem(response)
                for received in response.iter_raw():
                    for event in reader.feed(received):
                        # Of what has no id of its own the last one still holds, also from before this connection.
                        yield event if event.id else StreamEvent(event.name, last, event.data)
                    if self._clock() >= until:
                        return
        except (httpx.TransportError, ValueError) as error:
            raise self._down(error) from error

    def _call(self, method: str, path: str, **more: Any) -> Document:
        """Every call here can be repeated: it only looks, or what it does is done once."""
        until = self._clock() + self._patience
        while True:
            try:
                response = self._http.request(method, path, **more)
                if response.is_success:
                    return response.json()
                error, wait = self._problem(response), _retry_after(response)
            except (httpx.TransportError, json.JSONDecodeError) as fault:
                error, wait = self._down(fault), _PAUSE
            if isinstance(error, RefusedError) or self._clock() + wait > until:
                raise error
            self._sleep(wait)

    def _problem(self, response: httpx.Response) -> GatewayDownError | RefusedError:
        """What a response that is no success means, in one line."""
        try:
            problem = response.json()
            detail, name = str(problem["detail"]), problem.get("field")
        except (ValueError, KeyError, TypeError, AttributeError):
            detail, name = f"{response.status_code} {response.reason_phrase}", None
        text = f"{name}: {detail}" if name and str(name) not in detail else detail
        if response.status_code in _ONCE_MORE:
            return GatewayDownError(f"the gateway at {self.url} can not do this now: {text}")
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            text = f"{text}; set TALLYSTREAM_KEY"
        return RefusedError(text, field=name)

    def _down(self, error: Exception) -> GatewayDownError:
        return GatewayDownError(
            f"no answer from the gateway at {self.url}: {str(error) or type(error).__name__}"
        )


def _address(text: str) -> str:
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{text!r} is not a gateway's address, as http://localhost:8080")
    return str(url).rstrip("/")


def _path(request_id: str) -> str:
    return f"/v1/tasks/{quote(request_id, safe='')}"


def _retry_after(response: httpx.Response) -> float:
    try:
        seconds = float(response.headers["Retry-After"])
    except (KeyError, ValueError):
        return _PAUSE
    return seconds if math.isfinite(seconds) and seconds > 0 else _PAUSE
