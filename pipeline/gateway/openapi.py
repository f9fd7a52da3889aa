"""The OpenAPI 3.1 document, made of the models that check bodies and write answers."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pipeline import __version__
from pipeline.gateway.access import COOKIE
from pipeline.gateway.operation import COMMON_PROBLEMS, HTML, JSON, Answer, Operation
from pipeline.gateway.problems import CONTENT_TYPE, ProblemDocument

_REF = "#/components/schemas/{model}"
_ABOUT = (
    "Several samples of a language model vote on each answer. A call is made with an API key, as a bearer token. "
    "Every error is a problem document (RFC 9457) with a stable code and, where there is one, the field at fault. "
    "OpenAI's clients can call too, as its own documentation has it; those paths are not described here."
)


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tallystream", "version": __version__, "description": _ABOUT},
        "paths": _paths(operations),
        "components": {
            "schemas": _schemas(operations),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "tsk_…, by `tallystream keys add`",
                },
                "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "the page's"},
            },
        },
    }


def _paths(operations: Sequence[Operation]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return paths


def _operation(operation: Operation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "tags": [operation.group],
        "responses": _responses(operation),
        "security": [] if operation.public else [{"key": []}, {"cookie": []}],
    }
    if operation.parameters:
        document["parameters"] = [parameter.document() for parameter in operation.parameters]
    if operation.body is not None:
        document["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(operation.body)}}}
    return document


def _responses(operation: Operation) -> dict[str, Any]:
    common = () if operation.public else COMMON_PROBLEMS
    problems = {str(status): _problem(status) for status in sorted({*operation.problems, *common})}
    return problems | {str(status): _answer(answer) for status, answer in operation.answers.items()}


def _answer(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {"description": answer.description}
    if answer.model is not None:
        document["content"] = {answer.content: {"schema": _ref(answer.model)}}
    elif answer.content:
        kind = {"type": "object"} if answer.content == JSON else {"type": "string"}
        document["content"] = {answer.content: {"schema": kind}}
    if answer.headers:
        document["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    return document


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {CONTENT_TYPE: {"schema": _ref(ProblemDocument)}, HTML: {"schema": {"type": "string"}}},
    }


def _schemas(operations: Sequence[Operation]) -> dict[str, Any]:
    wanted: dict[type[BaseModel], Literal["validation", "serialization"]] = {ProblemDocument: "serialization"}
    for operation in operations:
        if operation.body is not None:
            wanted[operation.body] = "validation"
        for answer in operation.answers.values():
            if answer.model is not None:
                wanted[answer.model] = "serialization"
    _, definitions = models_json_schema(list(wanted.items()), ref_template=_REF)
    return definitions["$defs"]


def _ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model.__name__)}
