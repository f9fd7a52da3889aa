"""Lines of a batch: what one asks, and what is written of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from pipeline.errors import BodyTooLargeError, InvalidRequestError, TallystreamError
from pipeline.events import InferenceRequest, Status
from pipeline.gateway.bodies import parse_body
from pipeline.gateway.openai.answers import chat_document, response_document
from pipeline.gateway.openai.asking import Asker, chat_request, response_request
from pipeline.gateway.openai.bodies import AskBody, ChatBody, LineBody, ResponseBody
from pipeline.store.rows import BATCH
from pipeline.store.tasks import Task

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
CUSTOM_ID = "custom_id"
LONGEST_LINE = 1_048_576
_LINE = "batch_req_"
_BODIES: Mapping[str, type[AskBody]] = {CHAT: ChatBody, RESPONSES: ResponseBody}


@dataclass(frozen=True, slots=True)
class Line:
    """A line that can be asked.

    Attributes:
        request: its id is made of the batch's and the line's number, so that it is the same whoever asks it.
    """

    number: int
    custom_id: str
    request: InferenceRequest


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that can not; ``custom_id`` as far as it can be read."""

    number: int
    custom_id: str | None
    error: TallystreamError


def request_id_of(batch_id: str, number: int) -> str:
    return f"{batch_id}-{number}"


def number_of(line_id: str) -> int:
    """Of the line that an output's ``id`` names."""
    return int(line_id.rpartition("-")[2])


def read_line(
    text: bytes, number: int, batch_id: str, endpoint: str, asker: Asker, check_model: Callable[[str], None]
) -> Line | BadLine:
    """
    Args:
        number: from 1.
        check_model: raises what is wrong with a model's name.
    """
    custom_id: str | None = None
    try:
        if len(text) > LONGEST_LINE:
            raise BodyTooLargeError(f"a line has at most {LONGEST_LINE:,} bytes")
        line = parse_body(text, LineBody)
        custom_id = line.custom_id
        if line.url != endpoint:
            raise InvalidRequestError(f"this batch is of {endpoint}", field="url")
        body = parse_body(msgspec.json.encode(line.body), _BODIES[endpoint])
        check_model(body.model)
        if body.stream:
            raise InvalidRequestError("a batch has no streams", field="stream")
        asked = chat_request(body, asker) if isinstance(body, ChatBody) else _response(body, asker)
    except TallystreamError as error:
        return BadLine(number, custom_id, error)
    metadata = asked.metadata | {BATCH: batch_id, CUSTOM_ID: custom_id}
    request_id = request_id_of(batch_id, number)
    return Line(number, custom_id, replace(asked, request_id=request_id, metadata=metadata))


def _response(body: AskBody, asker: Asker) -> InferenceRequest:
    assert isinstance(body, ResponseBody)
    return response_request(body, asker)


def output_line(task: Task, endpoint: str, model: str) -> bytes:
    """Of a line that was answered."""
    document = chat_document(task, model) if endpoint == CHAT else response_document(task, model)
    response = {"status_code": 200, "request_id": task.request.request_id, "body": document}
    return _line(task.request.request_id, task.request.metadata.get(CUSTOM_ID), response=response)


def error_line(
    batch_id: str, number: int, custom_id: str | None, code: str, message: str, param: str | None = None
) -> bytes:
    """Of a line that was not."""
    error = {"code": code, "message": message, "param": param, "line": number}
    return _line(request_id_of(batch_id, number), custom_id, error=error)


def answered(task: Task) -> bool:
    return task.status.terminal and task.status not in (Status.FAILED, Status.CANCELLED)


def _line(
    request_id: str,
    custom_id: str | None,
    response: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> bytes:
    document = {
        "id": f"{_LINE}{request_id}",
        "custom_id": custom_id,
        "response": response,
        "error": error,
    }
    return msgspec.json.encode(document) + b"\n"
