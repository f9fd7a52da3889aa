"""Headers that every response has."""

from __future__ import annotations

from aiohttp import web

from pipeline.gateway.request_ids import HEADER, request_id_of

_ALWAYS = {
    # The page brings all its scripts and styles as files of its own; nothing is inline, nothing is from elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Without any referrer a browser posts a form from nowhere (Origin: null), also to where it is from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_BEGUN = web.RequestKey("response_has_begun", bool)


def has_begun(request: web.Request) -> bool:
    """Whether a response's headers are sent, so that no other one can be."""
    return request.get(_BEGUN, False)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Called right before a response's headers are sent, of a stream too."""
    response.headers.update(_ALWAYS)
    response.headers[HEADER] = request_id_of(request)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "tallystream"
    request[_BEGUN] = True
