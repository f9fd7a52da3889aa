"""Problem documents (RFC 9457): every error that a client sees has this one form."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web
from pydantic import BaseModel

from pipeline.errors import DependencyDownError, TallystreamError
from pipeline.gateway.headers import has_begun
from pipeline.gateway.request_ids import request_id_of

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
_LONGEST_DETAIL, _LONGEST_PATH = 1_000, 200
_WAIT_FOR_DEPENDENCY = 2.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ProblemDocument(BaseModel):
    """A problem, as RFC 9457 has it, and what we add."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None
    retriable: bool
    request_id: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, as it is told.

    Attributes:
        code: stable, machine readable.
        field: of the input, that is at fault.
        retriable: whether the same call can work later.
        retry_after: whole seconds, at least.
        request_id: by which the log knows the call.
    """

    status: int
    code: str
    detail: str
    field: str | None = None
    retriable: bool = False
    retry_after: int | None = None
    request_id: str = ""

    @property
    def title(self) -> str:
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return "Error"

    def document(self) -> dict[str, Any]:
        return ProblemDocument(
            type="about:blank",
            title=self.title,
            status=self.status,
            detail=self.detail,
            code=self.code,
            field=self.field,
            retriable=self.retriable,
            request_id=self.request_id,
        ).model_dump()


ERROR_PAGE: web.AppKey[Callable[[web.Request, Problem], web.Response]] = web.AppKey("error_page")
"""How a problem is shown to somebody who looks at a page."""


@web.middleware
async def problem_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn what a handler raises into its document; a bug is logged with its traceback and told as nothing more."""
    headers: dict[str, str] = {}
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        if "Allow" in error.headers:
            headers["Allow"] = error.headers["Allow"]
        name = HTTPStatus(error.status).phrase.lower().replace(" ", "_")
        problem = Problem(error.status, name, error.reason, request_id=request_id_of(request))
    except TallystreamError as error:
        problem = problem_of(error, request_id_of(request))
        if problem.status >= 500:
            log.warning("refused", code=problem.code, error=error.message, request_id=problem.request_id)
    except Exception:
        if _has_left(request):
            return _break_off(request)
        problem = Problem(500, "internal_error", "a fault of ours; the log has it", retriable=False)
        path = request.rel_url.raw_path[:_LONGEST_PATH]  # raw: it may hold an encoded end of a line
        log.exception("failed", method=request.method, path=path, request_id=request_id_of(request))
    if has_begun(request):
        return _break_off(request)
    return respond(request, problem, headers)


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _break_off(request: web.Request) -> web.Response:
    """End the connection: half a response can only be broken off, and who has left is told nothing.

    Returns:
        what aiohttp finds out that it can not send, and says nothing about.
    """
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def problem_of(error: TallystreamError, request_id: str) -> Problem:
    """What a client is told of an error."""
    wait = error.retry_after
    if wait is None and isinstance(error, DependencyDownError):
        wait = _WAIT_FOR_DEPENDENCY
    return Problem(
        status=error.http_status,
        code=error.code,
        detail=error.message[:_LONGEST_DETAIL],
        field=error.field,
        retriable=error.retriable,
        retry_after=None if wait is None else max(1, math.ceil(wait)),
        request_id=request_id,
    )


def respond(request: web.Request, problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
    """The response that tells a problem: a page to who looks at pages, a document to everybody else."""
    show = request.config_dict.get(ERROR_PAGE)
    if show is not None and "text/html" in request.headers.get("Accept", ""):
        response = show(request, problem)
    else:
        response = web.json_response(problem.document(), status=problem.status, content_type=CONTENT_TYPE)
    response.headers.update(headers or {})
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="tallystream"'
    if problem.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        response.force_close()  # the rest of that body is not waited for
    return response
