"""Errors in OpenAI's form, which its client turns into its exceptions."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from pipeline.errors import TallystreamError, TaskFailedError, WaitLimitError
from pipeline.gateway.problems import CONTENT_TYPE, Handler, Problem, problem_of

PATHS: Final = ("/v1/chat/", "/v1/responses", "/v1/files", "/v1/batches", "/v1/models")
_STATUSES: Final = {422: 400, 410: 404}
"""What OpenAI's API has no own status for."""
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_FINAL: Final = frozenset({TaskFailedError.code, WaitLimitError.code})
"""A client that tries again by itself would ask another task each time."""


@web.middleware
async def openai_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Around the problem documents: says the same in OpenAI's form, on the paths that its client calls."""
    response = await handler(request)
    if response.content_type != CONTENT_TYPE or not request.path.startswith(PATHS):
        return response
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    told = json.loads(response.body)
    status = _STATUSES.get(response.status, response.status)
    response.set_status(status)
    response.content_type = "application/json"
    response.body = json.dumps(_document(status, told["detail"], told["code"], told["field"])).encode()
    if told["code"] in _FINAL:
        response.headers["x-should-retry"] = "false"
    return response


def error_document(error: TallystreamError) -> dict[str, Any]:
    """An error that is told inside of something else."""
    problem: Problem = problem_of(error, "")
    status = _STATUSES.get(problem.status, problem.status)
    return _document(status, problem.detail, problem.code, problem.field)


def _document(status: int, message: str, code: str, param: str | None) -> dict[str, Any]:
    if param is not None:
        param = param.removeprefix("sampling.")
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
