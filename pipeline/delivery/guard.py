"""Where a callback may go: checked as a URL, and again as the addresses that its name has.

A refusal after resolution is worth nothing if the name is looked up a second time to dial it. So the check
sits in the resolver of the connector: aiohttp dials exactly what `GuardedResolver` returned. A host that
is an address already never meets a resolver; `Guard.check_url` checks it, and lets pass only the one
spelling of an address that every parser reads alike.
"""

from __future__ import annotations

import asyncio
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from pipeline.delivery.addresses import check_address
from pipeline.errors import ForbiddenUrlError

_MAX_LENGTH = 2048
_PRINTABLE_ASCII = re.compile(r"[!-~]+")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.){{0,126}}{_LABEL}\.?")
# WHATWG URL, "ends in a number": such a host is read as an IPv4 address by some parser.
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")
_DOTTED_QUAD = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")


def _refused(reason: str) -> ForbiddenUrlError:
    return ForbiddenUrlError(reason, field="callback.url")


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules.

    Attributes:
        allow_private: callbacks to loopback and private networks pass.
        allowed_ports: empty for every port.
    """

    allow_private: bool = False
    allowed_ports: tuple[int, ...] = ()

    def check_url(self, text: str) -> URL:
        """The URL to dial, parsed once: what was checked is the object that is sent.

        International names have to come as punycode and paths percent-encoded, as RFC 3986 wants it: a
        character that a parser would have to map is a character that two parsers map differently.

        Raises:
            ForbiddenUrlError: says which rule it breaks.
        """
        if len(text) > _MAX_LENGTH:
            raise _refused(f"a callback URL has at most {_MAX_LENGTH} characters")
        if not _PRINTABLE_ASCII.fullmatch(text) or "\\" in text:
            raise _refused("a callback URL is printable ASCII without spaces and backslashes")
        if not text.lower().startswith(("http://", "https://")):
            raise _refused("a callback URL starts with http:// or https://")
        if "#" in text:
            raise _refused("a callback URL has no fragment")
        if "@" in re.split(r"[/?]", text.partition("://")[2], maxsplit=1)[0]:
            raise _refused("a callback URL carries no user name and no password")
        try:
            url = URL(text)
        except ValueError:
            raise _refused("not a URL") from None
        self._check_port(url.port)
        self._check_host(url.raw_host or "")
        return url

    def _check_port(self, port: int | None) -> None:
        if not port or (self.allowed_ports and port not in self.allowed_ports):
            raise _refused(f"callbacks to port {port} are not allowed")

    def _check_host(self, host: str) -> None:
        if ":" in host:
            check_address(host, allow_private=self.allow_private)
        elif _ENDS_IN_NUMBER.fullmatch(host):
            if not _DOTTED_QUAD.fullmatch(host):
                raise _refused("an IPv4 address is written as four decimal numbers")
            check_address(host, allow_private=self.allow_private)
        elif not _NAME.fullmatch(host):
            raise _refused("the host is no name")
        elif f".{host.rstrip('.')}".endswith(".localhost") and not self.allow_private:
            raise _refused("callbacks to localhost are not allowed")


def endpoint_of(url: str) -> str:
    """host:port, the unit of fairness; the text itself when it is no URL, to be refused when it is sent."""
    try:
        parsed = URL(url)
    except ValueError:
        return url
    return f"{parsed.raw_host}:{parsed.port}" if parsed.raw_host else url


class GuardedResolver(AbstractResolver):
    """Passes a look-up's answers on only if every one of them may be dialled."""

    def __init__(self, guard: Guard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """As the inner resolver does.

        Raises:
            ForbiddenUrlError: at least one answer is refused; a name with one public and one private
                address is how an attacker gets past a check of the first.
            OSError: the name has no address.
        """
        answers = await self._inner.resolve(host, port, family)
        for answer in answers:
            check_address(answer["host"], allow_private=self._guard.allow_private)
        return answers

    async def close(self) -> None:
        await self._inner.close()


class SystemResolver(AbstractResolver):
    """getaddrinfo on threads of its own.

    A look-up can not be cancelled and outlasts its attempt when a name server is slow. On the loop's
    few shared threads, two such names would hold up everything else in the process.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook-dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        look_up = partial(
            socket.getaddrinfo, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await loop.run_in_executor(self._threads, look_up, host, port)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _type, proto, _name, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
