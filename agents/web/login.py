"""``/login``: an API key as a cookie, which no script can read and no other site can use."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from agents.web.forms import posted, went
from agents.web.templating import page
from pipeline.errors import AuthenticationError
from pipeline.gateway.access import COOKIE, public
from pipeline.gateway.context import gateway_of

_DAYS_30 = 30 * 86_400


@public
async def show(request: web.Request) -> web.Response:
    return page(request, "login.html", next=_own(request.query.get("next", "/")), trouble="")


@public
async def sign_in(request: web.Request) -> web.Response:
    fields = await posted(request)
    key, wanted = fields.get("key", "").strip(), _own(fields.get("next", "/"))
    try:
        gateway_of(request).keys.principal(key)
    except AuthenticationError:
        return page(
            request,
            "login.html",
            status=HTTPStatus.UNAUTHORIZED,
            next=wanted,
            trouble="This key is not known here.",
        )
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": wanted})
    response.set_cookie(
        COOKIE, key, max_age=_DAYS_30, httponly=True, samesite="Strict", secure=_by_tls(request), path="/"
    )
    return response


@public
async def sign_out(request: web.Request) -> web.Response:
    response = went(request, "/login")
    response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict", secure=_by_tls(request))
    return response


def _by_tls(request: web.Request) -> bool:
    """Also to a proxy in front, which says so. Who says so falsely keeps a cookie that is not sent back."""
    return request.secure or request.headers.get("X-Forwarded-Proto") == "https"


def _own(path: str) -> str:
    """A path of this page, whatever was asked for."""
    own = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and path.isascii()
    )
    return path if own else "/"
