"""One operation of the API as its description has it; ``pipeline.gateway.openapi`` makes the document of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

JSON, HTML, EVENTS = "application/json", "text/html", "text/event-stream"
COMMON_PROBLEMS = (401, 403, 429, 503)
"""What any call with a key may get."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where a value stands beside the body: ``path``, ``query`` or ``header``."""

    name: str
    place: str
    schema: Mapping[str, Any]
    description: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "description": self.description,
            "schema": dict(self.schema),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that is no problem.

    Attributes:
        model: of its JSON; ``None`` for everything that is no JSON of a model.
        headers: name to description.
    """

    description: str
    model: type[BaseModel] | None = None
    content: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Operation:
    """What can be called.

    Attributes:
        path: with parameters as ``{id}``.
        problems: statuses of the problem documents that it may get, beside ``COMMON_PROBLEMS``.
        public: needs no key.
    """

    method: str
    path: str
    name: str
    summary: str
    description: str = ""
    group: str = "Tasks"
    parameters: tuple[Parameter, ...] = ()
    body: type[BaseModel] | None = None
    answers: Mapping[int, Answer] = field(default_factory=dict[int, Answer])
    problems: tuple[int, ...] = ()
    public: bool = False
