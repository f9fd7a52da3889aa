"""A webhook endpoint on this machine: verifies each signature with the independent standardwebhooks package."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from pipeline.errors import MissingDependencyError


class Receiver:
    """Listens on a free port of the loopback address, on a thread of its own."""

    def __init__(self) -> None:
        try:
            from standardwebhooks import Webhook
        except ImportError as error:
            raise MissingDependencyError(
                "the demo verifies callbacks with the package standardwebhooks: pip install 'tallystream[demo]'"
            ) from error
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        self._webhook = Webhook(secret)
        self._folder = tempfile.TemporaryDirectory(prefix="tallystream-demo-")
        self._secrets = Path(self._folder.name) / "secrets.json"
        self._secrets.write_text(json.dumps({"default": secret}))
        self._secrets.chmod(0o600)
        self._lock = threading.Lock()
        self._verified: Counter[tuple[str, str]] = Counter()
        self._ids: Counter[str] = Counter()
        self._rejected = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._thread = threading.Thread(target=self._serve, name="receiver", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/callbacks"

    def agent_environment(self) -> dict[str, str]:
        """What lets the webhook agent sign with our secret and call the loopback address."""
        return {
            "TALLYSTREAM_WEBHOOK__SECRETS_FILE": str(self._secrets),
            "TALLYSTREAM_WEBHOOK__ALLOW_PRIVATE": "true",
            "TALLYSTREAM_WEBHOOK__RETRY_SCHEDULE": "[1, 2, 5, 10, 30]",
        }

    def verified(self, request_id: str, event: str) -> bool:
        """Whether a callback with a good signature came for this request and event."""
        with self._lock:
            return self._verified[request_id, event] > 0

    def counts(self) -> tuple[int, int, int]:
        """Callbacks verified, callbacks that came more than once, and callbacks rejected."""
        with self._lock:
            return sum(self._ids.values()), sum(n - 1 for n in self._ids.values()), self._rejected

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._folder.cleanup()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_post("/callbacks", self._receive)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def answer(self, request: web.Request, webhook_id: str, body: bytes) -> web.StreamResponse:
        """What a callback with a good signature is answered."""
        return web.Response(status=204)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            self._webhook.verify(body, dict(request.headers))
        except Exception:
            with self._lock:
                self._rejected += 1
            return web.Response(status=401)
        payload = json.loads(body)
        with self._lock:
            self._ids[request.headers["webhook-id"]] += 1
            self._verified[payload["data"]["request_id"], payload["type"].rpartition(".")[2]] += 1
        return await self.answer(request, request.headers["webhook-id"], body)
