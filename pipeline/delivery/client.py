"""One attempt at one callback: signed, guarded, bounded in time and bytes; never an exception."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType

import aiohttp
from aiohttp.abc import AbstractResolver

from pipeline.delivery.guard import Guard, GuardedResolver, SystemResolver, endpoint_of
from pipeline.delivery.outcome import Outcome, OutcomeCode, outcome_of_status
from pipeline.delivery.schedule import parse_retry_after
from pipeline.delivery.secret_store import SecretStore
from pipeline.delivery.signature import sign
from pipeline.errors import ForbiddenUrlError, UnknownSecretError
from pipeline.events import Delivery
from pipeline.settings import WebhookSettings
from pipeline.tracing.spans import SpanKind, after, begin, failed, fields_of, of_request

MAX_ANSWER_BYTES = 65_536
_EXCERPT_CHARACTERS = 200
_HEADERS = {
    "content-type": "application/json",
    "user-agent": "tallystream-webhook",
    "accept-encoding": "identity",
}


class WebhookClient:
    """Sends callbacks; use it as an async context manager.

    Certificates are verified always; a private authority is trusted by ``SSL_CERT_FILE``, as everywhere
    in Python. Proxies of the environment are not used: behind one, the guard would check nothing.
    """

    def __init__(
        self, settings: WebhookSettings, secrets: SecretStore, resolver: AbstractResolver | None = None
    ) -> None:
        """``resolver`` looks names up instead of the system; its answers are checked just the same."""
        self._timeout = settings.attempt_timeout
        self._secrets = secrets
        self._guard = Guard(settings.allow_private, settings.allowed_ports)
        self._resolver = GuardedResolver(self._guard, resolver or SystemResolver(settings.total))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> WebhookClient:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            ssl=ssl.create_default_context(),
            use_dns_cache=False,
            # A kept connection can be closed by the peer just as it is reused: a failure of our making.
            force_close=True,
            limit=0,  # the dispatcher keeps the limits
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=MAX_ANSWER_BYTES // 2,  # aiohttp holds up to twice this much unread
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    async def attempt(self, delivery: Delivery, now: float) -> Outcome:
        """Send a delivery's body once, stamped and signed with ``now`` (seconds since 1970-01-01 UTC).

        Ends within ``attempt_timeout`` from look-up to last byte, however slowly the endpoint drips.
        """
        told = of_request(delivery.request_id, delivery.run)
        told["tallystream.delivery_id"], told["tallystream.attempt"] = (
            delivery.delivery_id,
            delivery.attempt + 1,
        )
        told["http.request.method"] = "POST"
        if (
            endpoint := endpoint_of(delivery.url)
        ) != delivery.url:  # else it is no URL, and may hold anything
            told["server.address"] = endpoint
        span = begin("deliver callback", SpanKind.CLIENT, delivery.trace, attributes=told)
        try:
            outcome = await self._attempted(delivery, now, fields_of(after(span)))
            if outcome.status_code is not None:
                span.set_attribute("http.response.status_code", outcome.status_code)
            if outcome.code is not OutcomeCode.DELIVERED:
                failed(span, outcome.code)
            return outcome
        except BaseException:
            failed(span, "interrupted")
            raise
        finally:
            span.end()

    async def _attempted(self, delivery: Delivery, now: float, trace: Mapping[str, str]) -> Outcome:
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._post(delivery, now, trace)
            # The head has come, and its status decides: a body that drips on is not a time-out.
            excerpt = await _excerpt(response, deadline)
            retry_after = parse_retry_after(response.headers.get("Retry-After"), int(now * 1000))
            return outcome_of_status(response.status, f"{response.status} {excerpt}".strip(), retry_after)
        except UnknownSecretError as error:
            return Outcome(None, OutcomeCode.UNKNOWN_SECRET, error.message, final=True)
        except ForbiddenUrlError as error:
            return Outcome(None, OutcomeCode.FORBIDDEN_URL, error.message, final=True)
        except TimeoutError:
            return Outcome(None, OutcomeCode.TIMEOUT, f"no answer within {self._timeout:g} s")
        except aiohttp.ClientSSLError as error:
            return Outcome(None, OutcomeCode.TLS, str(error))
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, aiohttp.InvalidURL) as error:
            return Outcome(None, OutcomeCode.PROTOCOL_ERROR, f"not an HTTP answer: {type(error).__name__}")
        except (aiohttp.ClientError, OSError) as error:
            return Outcome(None, OutcomeCode.CONNECT_ERROR, str(error) or type(error).__name__)

    async def _post(self, delivery: Delivery, now: float, trace: Mapping[str, str]) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("use WebhookClient as an async context manager")
        headers = sign(self._secrets.keys(delivery.secret_id), delivery.delivery_id, int(now), delivery.body)
        url = self._guard.check_url(delivery.url)
        return await self._session.post(
            url, data=delivery.body, headers={**_HEADERS, **trace, **headers}, allow_redirects=False
        )


async def _excerpt(response: aiohttp.ClientResponse, deadline: float) -> str:
    """The start of an answer's body, printable; what is wrong with the rest is not passed on."""
    body = b""
    try:
        async with asyncio.timeout_at(deadline):
            while len(body) < MAX_ANSWER_BYTES and (
                chunk := await response.content.read(MAX_ANSWER_BYTES - len(body))
            ):
                body += chunk
    except (aiohttp.ClientError, OSError):
        pass
    finally:
        # Not release(): that would read an endless body to its end.
        response.close()
    text = body[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]
    return "".join(character if character.isprintable() else " " for character in text)
