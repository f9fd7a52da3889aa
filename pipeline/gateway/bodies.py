"""What a client may post, as models: they check a body, and the OpenAPI document is made of them.

Strict: nothing is coerced, unknown fields are refused, and null is the same as leaving a field out.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.delivery.guard import Guard
from pipeline.errors import InvalidRequestError, MalformedError
from pipeline.events import (
    DEFAULT_PRIORITY,
    PRIORITIES,
    CachePolicy,
    Callback,
    InferenceRequest,
    Kind,
    Message,
    Mode,
    SamplingOverrides,
    Session,
)

_MOST_INT = 2**31 - 1
_MOST_TOLD, _LONGEST_NAME = 5, 64
_Int = Annotated[int, Field(ge=0, le=_MOST_INT)]


class Body(BaseModel):
    """Root of what is posted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


B = TypeVar("B", bound=Body)


class MessageBody(Body):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class SamplingBody(Body):
    """What changes of the mode's sampling; null keeps the mode's value."""

    n: Annotated[int, Field(ge=1, le=_MOST_INT)] | None = Field(None, description="samples")
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(None, description="0 is greedy")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1, le=_MOST_INT)] | None = Field(
        None, description="of one sample"
    )
    seed: Annotated[int, Field(ge=0, le=2**62 - 1)] | None = Field(None, description="sample i has seed + i")
    stop: list[str] | None = Field(None, description="texts that end a sample")
    top_k: _Int | None = Field(None, description="0 is off")
    min_p: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="0 is off")
    repetition_penalty: Annotated[float, Field(ge=0.1, le=10)] | None = Field(None, description="1 is off")
    top_logprobs: _Int | None = Field(None, description="in the samples' records; 0 is off")


class CallbackBody(Body):
    """Where results are sent by HTTP POST, signed."""

    url: str
    secret_id: str | None = Field(None, description="which secret signs; null: default")
    events: list[Literal["first_answer", "done"]] | None = Field(None, description="null: done")


class SessionBody(Body):
    """The conversation of which this is the next turn."""

    user: str
    session: str


class TaskBody(Body):
    """A question."""

    prompt: str | None = Field(None, description="the question; or messages, and not both")
    messages: list[MessageBody] | None = Field(None, description="the last turn is the question")
    mode: Mode | None = Field(None, description="null: standard")
    priority: Annotated[int, Field(ge=0, le=PRIORITIES - 1)] | None = Field(
        None, description=f"0 first, {PRIORITIES - 1} last; null: {DEFAULT_PRIORITY}"
    )
    kind: Kind | None = Field(None, description="null: answer")
    sampling: SamplingBody | None = None
    deadline_ms: Annotated[int, Field(ge=1, le=2**40 - 1)] | None = Field(
        None, description="from its acceptance; null: the mode's"
    )
    callback: CallbackBody | None = None
    session: SessionBody | None = None
    tests: str | None = Field(None, description="of kind code")
    images: list[str] | None = Field(None, description="base64, of kind vision")
    metadata: dict[str, str] | None = Field(None, description="yours; comes back in every answer")
    cache: CachePolicy | None = Field(None, description="null: none")

    def to_request(self, request_id: str, tenant: str, guard: Guard) -> InferenceRequest:
        """The event that this asks for.

        Raises:
            InvalidRequestError: an image is not base64.
            ForbiddenUrlError: callbacks may not go there.
        """
        given = {
            "prompt": self.prompt,
            "messages": self.messages and tuple(Message(turn.role, turn.content) for turn in self.messages),
            "mode": self.mode,
            "priority": self.priority,
            "kind": self.kind,
            "sampling": self.sampling and _sampling(self.sampling),
            "deadline_ms": self.deadline_ms,
            "callback": self.callback and _callback(self.callback, guard),
            "session": self.session and Session(self.session.user, self.session.session),
            "tests": self.tests,
            "images": self.images and tuple(_image(text, i) for i, text in enumerate(self.images)),
            "metadata": self.metadata,
            "cache": self.cache,
        }
        return InferenceRequest(
            request_id,
            tenant=tenant,
            **{name: value for name, value in given.items() if value is not None},  # pyright: ignore[reportArgumentType]
        )


def parse_body(data: bytes, model: type[B]) -> B:
    """A body's bytes as its model.

    Raises:
        MalformedError: no JSON; says where.
        InvalidRequestError: names the field.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        raise MalformedError(problems[0]["msg"])
    told = [f"{_place(each['loc'])}: {each['msg']}" for each in problems[:_MOST_TOLD]]
    if more := len(problems) - len(told):
        told.append(f"and {more} more")
    raise InvalidRequestError("; ".join(told), field=_place(problems[0]["loc"]))


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:_LONGEST_NAME] for part in loc) or "body"


def _sampling(body: SamplingBody) -> SamplingOverrides:
    given = {name: value for name, value in body.model_dump(exclude={"stop"}).items() if value is not None}
    return SamplingOverrides(**given, stop=tuple(body.stop or ()))


def _callback(body: CallbackBody, guard: Guard) -> Callback:
    guard.check_url(body.url)
    given = {"secret_id": body.secret_id, "events": body.events and tuple(body.events)}
    return Callback(body.url, **{name: value for name, value in given.items() if value})  # pyright: ignore[reportArgumentType]


def _image(text: str, number: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidRequestError(f"images[{number}] is not base64", field="images") from None
