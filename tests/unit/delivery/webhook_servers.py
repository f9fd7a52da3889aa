"""Real servers on loopback for the delivery tests, and the values that most of them start from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import hypothesis
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from pipeline.delivery.secret_store import SecretStore
from pipeline.events import Delivery, DeliveryState
from pipeline.settings import WebhookSettings

# Nothing here asserts wall time, the property tests included.
steady = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEXT_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazo0TnR5U2k="
STORE = SecretStore({"default": (SECRET,), "rotating": (NEXT_SECRET, SECRET)})

DELIVERY = Delivery(
    delivery_id="dlv_1",
    request_id="r1",
    run=0,
    revision=1,
    event="done",
    url="http://hooks.example.com/in",
    secret_id="default",
    state=DeliveryState.PENDING,
    attempt=0,
    created_at=1_000,
    updated_at=1_000,
    next_due_at=1_000,
    body='{"answer":"四十二"}'.encode(),
)


def settings(**changes: object) -> WebhookSettings:
    return WebhookSettings(**({"allow_private": True, "attempt_timeout": 20, "jitter": 0} | changes))  # type: ignore[arg-type]


def delivery(url: str, **changes: object) -> Delivery:
    return replace(DELIVERY, url=url, **changes)  # type: ignore[arg-type]


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Listener:
    """Counts the connections that reach it, whatever they say."""

    port: int = 0
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"


async def _nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def listening(serve: Serve = _nothing, *, dual_stack: bool = False) -> AsyncIterator[Listener]:
    """A bare TCP server; ``closed`` is set when a peer went away or ``serve`` ended."""
    listener = Listener()
    writers: list[asyncio.StreamWriter] = []

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        writers.append(writer)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            listener.closed.set()

    if dual_stack and socket.has_dualstack_ipv6():
        listening_socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listening_socket = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.start_server(on_connection, sock=listening_socket)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for writer in writers:
            writer.close()


@dataclass
class Receiver:
    """An HTTP endpoint that keeps what it was sent."""

    port: int = 0
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"


@asynccontextmanager
async def receiving(*answers: web.Response, ssl_context: object = None) -> AsyncIterator[Receiver]:
    """Give the answers in turn, the last one for ever; 200 when there are none."""
    receiver = Receiver()

    async def handle(request: web.Request) -> web.Response:
        receiver.requests.append((dict(request.headers), await request.read()))
        if not answers:
            return web.Response()
        chosen = answers[min(len(receiver.requests), len(answers)) - 1]
        return web.Response(status=chosen.status, headers=chosen.headers, body=chosen.body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)  # type: ignore[arg-type]
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


class FakeResolver(AbstractResolver):
    """Answers each look-up of any name with the next list of addresses, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = answers
        self.calls = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.calls += 1
        addresses = self.answers[min(self.calls, len(self.answers)) - 1]
        if not addresses:
            raise OSError("no such name")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass
