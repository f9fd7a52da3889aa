"""The OpenAI-compatible server that the engine ``http`` calls: who it is, one call, what its answers mean."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType

import aiohttp
import msgspec
from yarl import URL

from pipeline.delivery.schedule import parse_retry_after
from pipeline.engine.http_events import EventReader
from pipeline.engine.http_sample import HttpSample
from pipeline.engine.openai_protocol import (
    END_OF_STREAM,
    TokenCounts,
    call_body,
    may_work_later,
    read_event,
    refusal,
)
from pipeline.errors import ConfigError, ModelLoadError, ModelServerDownError, ServerRefusedError
from pipeline.settings import HttpEngineSettings

_LARGEST_ANSWER = 65_536
# A server that answers so runs but has no list: transformers serve gives 500 without a cache of the hub.
_NO_LIST = (404, 405, 500, 501)


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class ModelServer:
    """A server by its URL; an async context manager.

    Attributes:
        away: whether the last call got no answer, or one that says to come again.

    Args:
        options: where it is and how patient to be.

    Raises:
        ConfigError: the URL or the key's file is wrong.
    """

    def __init__(self, options: HttpEngineSettings) -> None:
        self._options = options
        self._root = _root(options.url)
        self._key = _key(options)
        self._model = options.model
        self._session: aiohttp.ClientSession | None = None
        self.away = False

    @property
    def name(self) -> str:
        """The URL as it may be shown."""
        return str(self._root.with_user(None))

    async def __aenter__(self) -> ModelServer:
        options = self._options
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the engine keeps the limit
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=options.connect_timeout, sock_read=options.idle_timeout
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"authorization": f"Bearer {self._key}"} if self._key else {},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def find_model(self) -> str:
        """Ask which models there are; returns the one to call.

        Raises:
            ModelServerDownError: no answer, or one that says to come again.
            ModelLoadError: the server refuses, or has no model.
        """
        try:
            async with self._opened().get(self._root / "models", allow_redirects=False) as response:
                status, body = response.status, await _beginning(response)
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error
        if status in _NO_LIST and self._model:
            return self._model
        if may_work_later(status):
            raise refusal(status, body)
        if status != 200:
            raise ModelLoadError(str(refusal(status, body)), field="http_engine")
        if not self._model:
            self._model = _first_model(body)
        return self._model

    async def call(self, samples: Sequence[HttpSample]) -> None:
        """Draw samples of one prompt in one call, until each has ended.

        Raises:
            ModelServerDownError: the call can be repeated; ``retry_after`` says when not to.
            GenerationError: the server will not draw this.
        """
        body = call_body(
            samples[0].task, model=self._model, samples=len(samples), logprobs=self._options.logprobs
        )
        try:
            async with self._opened().post(
                self._root / "chat" / "completions", json=body, allow_redirects=False
            ) as response:
                try:
                    await self._require_stream(response)
                    async for data in _events(response):
                        if _take(data, samples):
                            break
                finally:
                    # Not release(): a server that goes on for nobody should hear of it.
                    response.close()
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error
        for sample in samples:
            if not sample.ended and sample.reason is None:
                raise ModelServerDownError("The model server ended its answer before the sample's end")
            sample.finish()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use ModelServer as an async context manager")
        return self._session

    async def _require_stream(self, response: aiohttp.ClientResponse) -> None:
        self.away = may_work_later(response.status)
        if response.status != 200:
            error = refusal(response.status, await _beginning(response))
            if isinstance(error, ModelServerDownError):
                now_ms = int(time.time() * 1000)
                error.retry_after = parse_retry_after(response.headers.get("Retry-After"), now_ms)
            raise error
        if response.content_type != "text/event-stream":
            raise ServerRefusedError(
                f"The model server answered with {response.content_type}, not with a stream of events"
            )

    def _unreachable(self, error: Exception) -> ModelServerDownError:
        self.away = True
        return ModelServerDownError(f"No answer from {self.name}: {str(error) or type(error).__name__}")


def _take(data: str, samples: Sequence[HttpSample]) -> bool:
    """Take an event in; true when nothing more can come that matters."""
    if data == END_OF_STREAM:
        return True
    deltas, counts = read_event(data)
    for delta in deltas:
        if 0 <= delta.choice < len(samples):
            samples[delta.choice].add(delta)
    if counts is not None:
        _count(counts, samples)
    if len(samples) > 1:
        for sample in samples:
            if sample.reason is not None:
                sample.finish()
    return all(sample.ended or sample.stopped for sample in samples)


def _count(counts: TokenCounts, samples: Sequence[HttpSample]) -> None:
    """What the call used is told for all of its samples together, so it says nothing about one of several."""
    if len(samples) == 1:
        samples[0].count(counts)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    reader = EventReader()
    async for received in response.content.iter_any():
        for data in reader.feed(received):
            yield data


async def _beginning(response: aiohttp.ClientResponse) -> str:
    body = b""
    while len(body) < _LARGEST_ANSWER and (chunk := await response.content.read(_LARGEST_ANSWER)):
        body += chunk
    return body.decode("utf-8", "replace")


def _first_model(body: str) -> str:
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except msgspec.DecodeError:
        models = []
    if not models:
        raise ModelLoadError(
            "The model server lists no model: set TALLYSTREAM_HTTP_ENGINE__MODEL", field="http_engine"
        )
    return models[0].id


def _root(text: str) -> URL:
    variable = "TALLYSTREAM_HTTP_ENGINE__URL"
    if not text:
        raise ConfigError(
            f"{variable} is not set: the root of an OpenAI-compatible API, as http://host:8000/v1"
        )
    try:
        url = URL(text.rstrip("/"))
    except ValueError as error:
        raise ConfigError(f"{variable} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{variable} must begin with http:// or https:// and name a host")
    return url


def _key(options: HttpEngineSettings) -> str:
    path: Path | None = options.api_key_file
    if path is None:
        key = options.api_key.get_secret_value()
    else:
        try:
            key = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"TALLYSTREAM_HTTP_ENGINE__API_KEY_FILE can't be read: {error}") from error
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("The API key of the model server has characters that no header can carry")
    return key
