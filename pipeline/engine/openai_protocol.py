"""Chat completions as OpenAI-compatible servers speak them: the body of a call, and what an event says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pipeline.engine.base import GenerationTask, Position, TokenLogprob
from pipeline.errors import (
    ContextExceededError,
    GenerationError,
    ModelServerDownError,
    ServerAccessError,
    ServerRefusedError,
)
from pipeline.events import FinishReason

END_OF_STREAM = "[DONE]"
_MOST_STOPS = 4  # OpenAI's own limit; all stops are looked for on this side too
_MESSAGE_CHARACTERS = 300
# Anything else that a server gives is an end of the sample's own making.
_REASONS = {"length": FinishReason.LENGTH, "content_filter": FinishReason.ERROR}
_ABORTED = "abort"
_TOO_LONG = "context_length_exceeded"


@dataclass(frozen=True, slots=True)
class Delta:
    """What one event says of one sample of a call.

    Attributes:
        choice: index of the sample in the call.
        positions: of the event's tokens, the likeliest best first; empty when the server gives none.
        reason: set by the sample's last event; ``ERROR`` when the server filtered it.
    """

    choice: int
    text: str
    positions: tuple[Position, ...]
    reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What the whole call used."""

    prompt: int
    completion: int


class _Logprob(msgspec.Struct):
    logprob: float
    token: str = ""


class _Position(_Logprob):
    top_logprobs: list[_Logprob] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Position] | None = None


class _Piece(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Piece | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Error(msgspec.Struct):
    message: str = ""
    code: int | str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: _Error | str | None = None


class _Refusal(msgspec.Struct):
    error: _Error | str | None = None
    detail: str | None = None


_decoder = msgspec.json.Decoder(_Event)


def call_body(task: GenerationTask, *, model: str, samples: int, logprobs: bool) -> dict[str, Any]:
    """The JSON of a streaming call for ``samples`` samples of a task's prompt.

    What has its neutral value is left out, since servers refuse fields that they do not know.
    """
    params = task.params
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": turn.role, "content": turn.content} for turn in task.messages],
        "temperature": float(params.temperature),
        "max_tokens": params.max_new_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if params.top_p < 1:
        body["top_p"] = params.top_p
    if params.top_k:
        body["top_k"] = params.top_k
    if params.min_p:
        body["min_p"] = params.min_p
    if params.repetition_penalty != 1:
        body["repetition_penalty"] = params.repetition_penalty
    if params.seed is not None:
        body["seed"] = params.seed
    if params.stop:
        body["stop"] = list(params.stop[:_MOST_STOPS])
    if samples > 1:
        body["n"] = samples
    if logprobs or task.top_logprobs is not None:
        body["logprobs"] = True
    if task.top_logprobs:
        body["top_logprobs"] = task.top_logprobs
    return body


def read_event(data: str) -> tuple[list[Delta], TokenCounts | None]:
    """What one event of the stream says.

    Raises:
        ModelServerDownError: it is not an event, or the server has given up; the call can be repeated.
        GenerationError: the server will not draw this.
    """
    try:
        event = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ModelServerDownError(f"The model server sent an event that can't be read: {error}") from error
    if event.error is not None:
        error = _as_error(event.error)
        raise _refusal(_status(error), error)
    deltas = [_delta(choice) for choice in event.choices or []]
    usage = event.usage
    return deltas, usage and TokenCounts(usage.prompt_tokens, usage.completion_tokens)


def _delta(choice: _Choice) -> Delta:
    if choice.finish_reason == _ABORTED:
        raise ModelServerDownError("The model server aborted the sample")
    logprobs = choice.logprobs.content if choice.logprobs else None
    return Delta(
        choice=choice.index,
        text=(choice.delta and choice.delta.content) or "",
        positions=tuple(map(_position, logprobs or ())),
        reason=None
        if choice.finish_reason is None
        else _REASONS.get(choice.finish_reason, FinishReason.STOP),
    )


def _position(said: _Position) -> Position:
    top = sorted(map(_token, said.top_logprobs or ()), key=lambda one: -one.logprob)
    return Position(_token(said), tuple(top))


def _token(said: _Logprob) -> TokenLogprob:
    return TokenLogprob(None, said.logprob, said.token)


def may_work_later(status: int) -> bool:
    """Whether the same call can be answered at another time."""
    return status in (408, 409, 425, 429) or (status >= 500 and status != 501)


_ADVICE = {
    401: "set TALLYSTREAM_HTTP_ENGINE__API_KEY",
    403: "check TALLYSTREAM_HTTP_ENGINE__API_KEY",
    404: "check TALLYSTREAM_HTTP_ENGINE__URL and __MODEL",
}


def refusal(status: int, body: str) -> ModelServerDownError | GenerationError:
    """The error for an answer that is not a stream.

    Args:
        body: of the answer; OpenAI's form ``{"error": {"message", "code"}}`` and FastAPI's
            ``{"detail": …}`` are understood, of anything else the beginning is shown.
    """
    return _refusal(status, _explanation(body))


def _refusal(status: int, error: _Error) -> ModelServerDownError | GenerationError:
    message = error.message[:_MESSAGE_CHARACTERS]
    if may_work_later(status):
        return ModelServerDownError(f"The model server answered {status}: {message}")
    if error.code == _TOO_LONG:
        return ContextExceededError(message)
    answered = f"The model server answered {status}: {message}"
    if status in _ADVICE:
        return ServerAccessError(f"{answered}; {_ADVICE[status]}")
    return ServerRefusedError(answered)


def _status(error: _Error) -> int:
    """The HTTP status that an error inside a stream stands for; a server that does not say is asked again."""
    if isinstance(error.code, int) and 400 <= error.code < 600:
        return error.code
    return 400 if error.code == _TOO_LONG else 500


def _explanation(body: str) -> _Error:
    try:
        answer = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        answer = _Refusal()
    return _as_error(answer.error or answer.detail or body.strip() or "(nothing)")


def _as_error(error: _Error | str) -> _Error:
    return _Error(error) if isinstance(error, str) else error
