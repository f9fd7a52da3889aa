"""Who may call: the key of a call, and where a browser's call comes from."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, TypeVar

from aiohttp import web
from yarl import URL

from pipeline.errors import AuthenticationError, ConfigError, ForbiddenError
from pipeline.gateway.context import PRINCIPAL, gateway_of
from pipeline.gateway.keys import LOCAL, Principal
from pipeline.gateway.problems import Handler
from pipeline.settings import Settings

COOKIE: Final = "tallystream_key"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PUBLIC = "_anybody_may_call"
_H = TypeVar("_H", bound=Callable[..., object])


def public(handler: _H) -> _H:
    """Mark a handler that needs no key."""
    setattr(handler, _PUBLIC, True)
    return handler


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Refuse to be open to a network.

    Raises:
        ConfigError: there is no key, and the address is not loopback.
    """
    if not keys and not is_loopback(settings.gateway.host):
        raise ConfigError(
            f"TALLYSTREAM_GATEWAY__HOST={settings.gateway.host} is open to others, and there is no API key; "
            "add one: tallystream keys add --tenant NAME"
        )


def is_public(request: web.Request) -> bool:
    """Whether a call met a handler that needs no key."""
    return getattr(request.match_info.handler, _PUBLIC, False)


@web.middleware
async def access_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a call through, and say whose it is, as ``principal_of``."""
    if not is_public(request) and request.match_info.http_exception is None:
        principal = request[PRINCIPAL] = _principal(request)
        if request.path.startswith("/v1/"):
            gateway_of(request).buckets.take(principal, time.monotonic())
    elif gateway_of(request).keys.open:
        _check_host(request)
    return await handler(request)


def _principal(request: web.Request) -> Principal:
    """
    Raises:
        AuthenticationError: no key, or none that is known.
        ForbiddenError: another site's page makes a browser call.
    """
    keys = gateway_of(request).keys
    keys.refresh()
    if keys.open:
        _check_host(request)
        _check_origin(request, must_say=False)
        return LOCAL
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return keys.principal(token.strip())
    if cookie := request.cookies.get(COOKIE):
        _check_origin(request, must_say=True)
        return keys.principal(cookie)
    raise AuthenticationError("an API key is needed: Authorization: Bearer tsk_…")


def _check_host(request: web.Request) -> None:
    """Whoever resolves a name of theirs to loopback could otherwise read everything from a page of theirs."""
    host = URL.build(scheme="http", authority=request.host).host if _is_authority(request.host) else None
    if host is None or not is_loopback(host):
        raise ForbiddenError(
            "a gateway without keys answers to localhost only; with keys it has no such rule", field="Host"
        )


def _check_origin(request: web.Request, *, must_say: bool) -> None:
    """A browser sends its cookie, and reaches loopback, for any page that asks it to; but it says for which.

    Args:
        must_say: refuse what says nothing; else it is no browser's.
    """
    if request.method in _SAFE_METHODS and "Upgrade" not in request.headers:
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is not None:
        good = site in ("same-origin", "none")
    elif origin is not None:
        good = origin == f"{request.scheme}://{request.host}"
    else:
        good = not must_say
    if not good:
        raise ForbiddenError("another site's page may not do this", field="Origin")


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached by this name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_authority(text: str) -> bool:
    try:
        URL.build(scheme="http", authority=text)
    except ValueError:
        return False
    return bool(text)
