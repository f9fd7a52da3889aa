"""What a form has posted, and where a browser goes after it."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import parse_qsl

from aiohttp import web

from pipeline.errors import MalformedError, UnsupportedMediaError
from pipeline.gateway.body_reader import read_body

_MOST_FIELDS = 50


async def posted(request: web.Request) -> dict[str, str]:
    """The fields of a form; of several of one name the last.

    Raises:
        UnsupportedMediaError, BodyTooLargeError, RequestTimedOutError, MalformedError: it is no form of this page.
    """
    if request.content_type != "application/x-www-form-urlencoded":
        raise UnsupportedMediaError("a form is posted as application/x-www-form-urlencoded")
    body = await read_body(request)
    try:
        return dict(
            parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
        )
    except ValueError as error:
        raise MalformedError(f"the form can not be read: {error}") from error


def went(request: web.Request, path: str) -> web.Response:
    """Show another page instead, after a form was taken."""
    if by_htmx(request):
        return web.Response(status=HTTPStatus.NO_CONTENT, headers={"HX-Redirect": path})
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": path})


def by_htmx(request: web.Request) -> bool:
    """Whether a part of the page is wanted, and not a page."""
    return "HX-Request" in request.headers
