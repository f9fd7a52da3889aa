"""What a client of OpenAI's asks, as a request. Pure.

A plain call is one sample whose whole text is the answer: mode fast, kind open. See
docs/adr/0054-openai-clients-ask-tasks.md.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.delivery.guard import Guard
from pipeline.delivery.openai_event import OPENAI
from pipeline.errors import InvalidRequestError
from pipeline.events import (
    DEFAULT_PRIORITY,
    Callback,
    InferenceRequest,
    Kind,
    Message,
    Mode,
    SamplingOverrides,
    Session,
)
from pipeline.gateway.openai.bodies import (
    AskBody,
    ChatBody,
    ChatPart,
    ImagePart,
    InputImage,
    InputPart,
    ResponseBody,
)

_DATA, _BASE64 = "data:", ";base64"
USER = "user"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and what holds where the body says nothing."""

    tenant: str
    guard: Guard
    priority: int = DEFAULT_PRIORITY
    deadline_ms: int | None = None


def chat_request(body: ChatBody, asker: Asker) -> InferenceRequest:
    """The request of a chat completion, without an id.

    Raises:
        InvalidRequestError: names the parameter.
        ForbiddenUrlError: callbacks may not go there.
    """
    if body.max_tokens is not None and body.max_completion_tokens not in (None, body.max_tokens):
        raise InvalidRequestError("max_tokens is max_completion_tokens; send one of them", field="max_tokens")
    turns = [(turn.role, turn.content) for turn in body.messages]
    return _request(body, turns, "messages", body.max_completion_tokens or body.max_tokens, asker)


def response_request(body: ResponseBody, asker: Asker) -> InferenceRequest:
    """The request of a response, without an id; raises as ``chat_request``."""
    turns: list[tuple[str, str | Sequence[ChatPart | InputPart]]] = []
    if body.instructions:
        turns.append(("system", body.instructions))
    if isinstance(body.input, str):
        turns.append(("user", body.input))
    else:
        turns += [(turn.role, turn.content) for turn in body.input]
    return _request(body, turns, "input", body.max_output_tokens, asker)


def _request(
    body: AskBody,
    turns: Sequence[tuple[str, str | Sequence[ChatPart | InputPart]]],
    param: str,
    max_new_tokens: int | None,
    asker: Asker,
) -> InferenceRequest:
    images = tuple(_images(turns, param))
    given: dict[str, Any] = {
        "deadline_ms": body.deadline_ms or asker.deadline_ms,
        "callback": _callback(body, asker.guard),
        "session": _session(body),
        "tests": body.tests,
        "cache": body.cache,
    }
    return InferenceRequest(
        "",
        messages=tuple(Message(_role(role), _text(content)) for role, content in turns),
        tenant=asker.tenant,
        priority=asker.priority if body.priority is None else body.priority,
        mode=body.mode or (Mode.STANDARD if (body.n or 1) > 1 else Mode.FAST),
        kind=body.kind or (Kind.VISION if images else Kind.OPEN),
        images=images,
        sampling=SamplingOverrides(
            n=body.n,
            temperature=body.temperature,
            top_p=body.top_p,
            max_new_tokens=max_new_tokens,
            seed=body.seed,
            stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        ),
        metadata=({USER: body.user} if body.user else {}) | (body.metadata or {}),
        **{name: value for name, value in given.items() if value is not None},
    )


def _role(role: str) -> str:
    return "system" if role == "developer" else role


def _text(content: str | Sequence[ChatPart | InputPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if not isinstance(part, ImagePart | InputImage))


def _images(turns: Iterable[tuple[str, str | Sequence[ChatPart | InputPart]]], param: str) -> Iterable[bytes]:
    for _, content in turns:
        for part in () if isinstance(content, str) else content:
            if isinstance(part, ImagePart):
                yield _image(part.image_url.url, param)
            elif isinstance(part, InputImage):
                yield _image(part.image_url, param)


def _image(url: str, param: str) -> bytes:
    head, comma, text = url.partition(",")
    if not (head.startswith(_DATA) and head.endswith(_BASE64) and comma):
        raise InvalidRequestError("an image is a data: URL in base64; no other URL is fetched", field=param)
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidRequestError("an image's data: URL is not base64", field=param) from None


def _callback(body: AskBody, guard: Guard) -> Callback | None:
    if body.callback is None:
        return None
    guard.check_url(body.callback.url)
    return Callback(body.callback.url, body.callback.secret_id or "default", (OPENAI,))


def _session(body: AskBody) -> Session | None:
    if isinstance(body.session, str):
        return Session(body.user or "default", body.session)
    return body.session and Session(body.session.user, body.session.session)
