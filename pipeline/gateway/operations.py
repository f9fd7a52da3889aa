"""Every operation of the API, described. A test compares them with the routes."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from pipeline.events import Status
from pipeline.gateway.bodies import TaskBody
from pipeline.gateway.documents import AcceptedDocument, TaskDocument, TaskList
from pipeline.gateway.idempotency import HEADER as IDEMPOTENCY_KEY
from pipeline.gateway.idempotency import REPLAYED
from pipeline.gateway.operation import EVENTS, HTML, Answer, Operation, Parameter
from pipeline.gateway.probes import Health, Readiness
from pipeline.gateway.tasks import INCLUDES, LARGEST_PAGE, PAGE

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_BODY_PROBLEMS: Final = (400, 408, 413, 415, 422)
_ID = Parameter("id", "path", {"type": "string", "minLength": 1}, "percent-encoded: it may hold a slash")
_EVENT_ID = Parameter(
    "Last-Event-ID", "header", _TEXT, "id of the last event that was seen: everything after it is told"
)
_EVENT_ID_QUERY = Parameter("last_event_id", "query", _TEXT, "the same, for who can not set a header")
_Name = Literal["state", "tokens", "sample", "votes", "first_answer", "result", "delivery", "gap", "end"]


class EventDocument(BaseModel):
    """A server-sent event."""

    event: _Name
    id: str | None = Field(None, description="to go on after it")
    data: str = Field(description="one line of JSON")


def _times(name: str, what: str) -> Parameter:
    return Parameter(name, "query", {"type": "string", "format": "date-time"}, what)


TASKS: Final = (
    Operation(
        "post",
        "/v1/tasks",
        "createTask",
        "Ask a question",
        "Answers once Kafka has the task. With an Idempotency-Key the same call can be repeated safely: the same key "
        "with the same body is the same task, for a day.",
        parameters=(
            Parameter(
                IDEMPOTENCY_KEY,
                "header",
                {"type": "string", "minLength": 1, "maxLength": 255},
                "printable ASCII; names the task for its tenant",
            ),
        ),
        body=TaskBody,
        answers={
            202: Answer(
                "accepted, now or before with the same Idempotency-Key",
                AcceptedDocument,
                headers={"Location": "of the task", REPLAYED: "true: it was accepted before"},
            )
        },
        problems=(*_BODY_PROBLEMS, 410),
    ),
    Operation(
        "get",
        "/v1/tasks",
        "listTasks",
        "List tasks, newest first",
        parameters=(
            Parameter("status", "query", {"type": "string", "enum": list(Status)}, "or several, by commas"),
            _times("since", "accepted then or later"),
            _times("until", "accepted before then"),
            Parameter("batch", "query", _TEXT, "value of the metadata `batch`"),
            Parameter("tenant", "query", _TEXT, "only heard of a key that sees all tenants"),
            Parameter(
                "limit", "query", {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE}
            ),
            Parameter("cursor", "query", _TEXT, "of the page before"),
        ),
        answers={200: Answer("a page", TaskList)},
        problems=(422,),
    ),
    Operation(
        "get",
        "/v1/tasks/{id}",
        "getTask",
        "Look at a task",
        parameters=(
            _ID,
            Parameter(
                "include",
                "query",
                {"type": "string", "enum": sorted(INCLUDES)},
                "what else to tell; several by commas",
            ),
        ),
        answers={200: Answer("the task", TaskDocument)},
        problems=(404, 410, 422),
    ),
    Operation(
        "delete",
        "/v1/tasks/{id}",
        "cancelTask",
        "Cancel a task",
        "What it has by then is kept.",
        parameters=(_ID,),
        answers={
            200: Answer("it has ended already", TaskDocument),
            202: Answer("the order is on its way; the task as it stands", TaskDocument),
        },
        problems=(404, 410),
    ),
    Operation(
        "get",
        "/v1/tasks/{id}/events",
        "followTask",
        "Follow a task by server-sent events",
        "States, tokens as they come, samples, live votes, the result, and what became of callbacks. The stream ends "
        "with `end`, also of a task that ended long ago. Leaving it cancels nothing.",
        group="Live",
        parameters=(_ID, _EVENT_ID, _EVENT_ID_QUERY),
        answers={200: Answer("events until the end", EventDocument, EVENTS)},
        problems=(404, 410, 422),
    ),
    Operation(
        "get",
        "/v1/tasks/{id}/ws",
        "followTaskBySocket",
        "Follow a task by WebSocket",
        'The same events as text frames `{"event", "id", "data"}`. A reader that is too slow is closed with 1013.',
        group="Live",
        parameters=(_ID, _EVENT_ID_QUERY),
        answers={101: Answer("a WebSocket", content="")},
        problems=(400, 404, 410, 422),
    ),
    Operation(
        "get",
        "/healthz",
        "health",
        "Whether the process lives",
        group="Probes",
        answers={200: Answer("it does", Health)},
        problems=(403,),
        public=True,
    ),
    Operation(
        "get",
        "/readyz",
        "readiness",
        "Whether it should get traffic",
        group="Probes",
        answers={
            200: Answer("its view of the topics is up to date", Readiness),
            503: Answer("not yet", Readiness),
        },
        problems=(403,),
        public=True,
    ),
    Operation(
        "get",
        "/openapi.json",
        "openapi",
        "This description",
        group="Description",
        answers={200: Answer("an OpenAPI 3.1 document", content="application/json")},
        problems=(403,),
        public=True,
    ),
    Operation(
        "get",
        "/docs",
        "docs",
        "This description, to be read",
        group="Description",
        answers={200: Answer("a page", content=HTML)},
        problems=(403,),
        public=True,
    ),
)
