"""A real HTTP server that speaks chat completions, answer by answer as a test says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from engine_support import PATIENCE

Answer = Callable[["ModelServer", web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def event(text: str | None = None, reason: str | None = None, index: int = 0, logprob: float | None = None):
    """One event of a stream."""
    choice: dict[str, Any] = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    if logprob is not None:
        choice["logprobs"] = {"content": [{"token": text, "logprob": logprob}]}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def event_of(text: str, *positions: tuple[str, float, dict[str, float]]) -> dict[str, Any]:
    """An event with what each of its tokens says of itself: its text, its log-probability, the likeliest."""
    made = event(text)
    content = [
        {
            "token": token,
            "logprob": logprob,
            "bytes": list(token.encode()),
            "top_logprobs": [{"token": other, "logprob": value} for other, value in top.items()],
        }
        for token, logprob, top in positions
    ]
    made["choices"][0]["logprobs"] = {"content": content}
    return made


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def stream(*events: dict[str, Any] | str, hang: bool = False, drop: bool = False) -> Answer:
    """Send these events, then end the stream in order, or hang until the client goes, or drop the connection."""

    async def answer(server: ModelServer, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for each in events:
            line = each if isinstance(each, str) else json.dumps(each)
            await response.write(f"data: {line}\n\n".encode())
        if hang:
            await server.until_gone()
        if drop:
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write(b"data: [DONE]\n\n")
        return response

    return answer


def saying(text: str, *, reason: str = "stop") -> Answer:
    """The text a character an event."""
    return stream(
        *(event(character, logprob=-0.5) for character in text), event("", reason), usage(7, len(text))
    )


def status(code: int, body: Any = None, **headers: str) -> Answer:
    async def answer(server: ModelServer, request: web.Request, asked: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(body or {"error": {"message": "no"}}, status=code, headers=headers)

    return answer


async def disconnect(server: ModelServer, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Close the connection without a word."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class ModelServer:
    """Attributes: ``calls`` are the bodies that came, ``most`` is how many were served at once at most."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most = self._now = self.gone = 0
        self.models = status(200, {"data": [{"id": "tiny"}]})
        self._answers: list[Answer] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._free = asyncio.Event()
        self.url = ""

    def then(self, *answers: Answer) -> None:
        """The answers to come, in order; the last one is given for good."""
        self._answers = list(answers)

    def let_go(self) -> None:
        """Let every answer that hangs end in order."""
        self._loop.call_soon_threadsafe(self._free.set)

    async def until_gone(self) -> None:
        try:
            await self._free.wait()
        except asyncio.CancelledError:
            with self._changed:
                self.gone += 1
                self._changed.notify_all()
            raise

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE)

    def run(self, ready: Future[None]) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self, ready: Future[None]) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        # Only so does a handler hear that its client is gone.
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set_result(None)
        await self._stop.wait()
        await runner.cleanup()

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return await self.models(self, request, {})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        with self._changed:
            self.calls.append(body)
            self.keys.append(request.headers.get("authorization"))
            self._now += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        try:
            return await answer(self, request, body)
        finally:
            self._now -= 1


@contextmanager
def model_server(*answers: Answer):
    server, ready = ModelServer(), Future[None]()
    server.then(*answers)
    thread = threading.Thread(target=server.run, args=(ready,), daemon=True)
    thread.start()
    ready.result(PATIENCE)
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def texts_of(pieces: Sequence[str], index: int = 0) -> list[dict[str, Any]]:
    return [event(piece, index=index) for piece in pieces]
