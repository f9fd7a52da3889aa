"""Reading a body: bounded in size, also once unpacked, and in time."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from pipeline.errors import (
    BodyTooLargeError,
    MalformedError,
    RequestTimedOutError,
    UnsupportedMediaError,
)
from pipeline.gateway.bodies import B, parse_body
from pipeline.gateway.context import gateway_of

_PLAIN: Final = frozenset({"", "identity"})
_PACKED: Final = frozenset({"gzip", "deflate"})
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
"""Which one it is, its first bytes say."""


async def read_json(request: web.Request, model: type[B]) -> B:
    """The body as its model.

    Raises:
        UnsupportedMediaError: it says that it is no JSON.
        BodyTooLargeError, RequestTimedOutError: as ``read_body``.
        MalformedError: it is none.
        InvalidRequestError: names the field.
    """
    kind = request.content_type
    if kind != "application/json" or (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaError("the body has to be application/json in UTF-8", field="Content-Type")
    return parse_body(await read_body(request), model)


async def read_body(request: web.Request, limit: int | None = None) -> bytes:
    """The whole body, unpacked.

    Args:
        limit: bytes; the settings' when there is none.

    Raises:
        UnsupportedMediaError: packed in a way that is not known here.
        BodyTooLargeError: more than the limit.
        RequestTimedOutError: it did not come in time.
        MalformedError: it broke off, or can not be unpacked.
    """
    settings = gateway_of(request).settings.gateway
    most = settings.body_limit if limit is None else limit
    packed = request.headers.get("Content-Encoding", "").lower()
    if packed not in _PLAIN | _PACKED:
        raise UnsupportedMediaError("a body may be packed by gzip or deflate", field="Content-Encoding")
    if (request.content_length or 0) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.read_timeout):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise RequestTimedOutError(
            f"the body was not complete {settings.read_timeout:g} s after its headers"
        ) from None
    except web.RequestPayloadError as error:
        raise MalformedError("the body broke off") from error
    return _unpacked(bytes(body), most) if packed in _PACKED else bytes(body)


def _unpacked(data: bytes, most: int) -> bytes:
    """Never more in memory than may be there: a few bytes can be packed gigabytes."""
    body = bytearray()
    try:
        while data:
            reader = zlib.decompressobj(_GZIP_OR_ZLIB)
            body += reader.decompress(data, most + 1 - len(body))
            if len(body) > most:
                raise _too_large(most)
            if not reader.eof:
                raise MalformedError("the packed body is not complete", field="Content-Encoding")
            data = reader.unused_data  # gzip may have several members
    except zlib.error as error:
        raise MalformedError(f"the body can not be unpacked: {error}", field="Content-Encoding") from error
    return bytes(body)


def _too_large(most: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"a body has at most {most:,} bytes, also once unpacked")
