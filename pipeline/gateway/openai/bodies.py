"""What OpenAI's client may post, as models.

A parameter that has no meaning here is declared all the same: its neutral values are taken, for clients that always
send them, and any other is refused by name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from pipeline.events import PRIORITIES, CachePolicy, Kind, Mode
from pipeline.gateway.bodies import Body, SessionBody

_MOST_INT = 2**31 - 1
MOST_PAIRS, _LONGEST_NAME, LONGEST_TEXT = 16, 64, 512


def _neutral(*values: object, instead: str = "leave it out") -> AfterValidator:
    def check(value: object) -> None:
        if value is not None and value not in values:
            raise ValueError(f"has no meaning here; {instead}")

    return AfterValidator(check)


Meaningless = Annotated[Any, _neutral()]
"""Any value but null is refused."""
_Empty = Annotated[Any, _neutral([], {})]
_Off = Annotated[Any, _neutral(0, False)]
_History = Annotated[Any, _neutral(instead='a conversation is named by extra_body {"session": "…"}')]
_Tokens = Annotated[int, Field(ge=1, le=_MOST_INT)] | None
_MetadataName = Annotated[str, Field(max_length=_LONGEST_NAME)]
_MetadataText = Annotated[str, Field(max_length=LONGEST_TEXT)]
Metadata = Annotated[dict[_MetadataName, _MetadataText], Field(max_length=MOST_PAIRS)]


class CallbackBody(Body):
    """Where to send a webhook of OpenAI's form when it has ended."""

    url: str
    secret_id: str | None = Field(None, description="which secret signs; null: default")


class AskBody(Body):
    """What both ways of asking have, and what rides in ``extra_body``."""

    model: str
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1, le=_MOST_INT)] | None = Field(None, description="samples")
    metadata: Metadata | None = None
    user: str | None = Field(None, description="kept in the metadata, and whose the session is")
    stream: bool | None = None
    mode: Mode | None = Field(None, description="null: fast, or standard when n is above 1")
    kind: Kind | None = Field(None, description="null: open, or vision when there are images")
    priority: Annotated[int, Field(ge=0, lt=PRIORITIES)] | None = None
    deadline_ms: Annotated[int, Field(gt=0, lt=2**40)] | None = None
    callback: CallbackBody | None = None
    session: str | SessionBody | None = Field(None, description="a text is the session of this user")
    tests: str | None = Field(None, description="of kind code")
    cache: CachePolicy | None = None

    store: Annotated[Any, _neutral(True)] = None
    tools: _Empty = None
    tool_choice: Annotated[Any, _neutral("none", "auto")] = None
    parallel_tool_calls: Annotated[Any, _neutral(True, False)] = None
    service_tier: Annotated[Any, _neutral("auto", "default")] = None
    top_logprobs: _Off = None
    moderation: Meaningless = None
    prompt_cache_key: Meaningless = None
    prompt_cache_options: Meaningless = None
    prompt_cache_retention: Meaningless = None
    safety_identifier: Meaningless = None
    access_programs: Meaningless = None


class TextPart(Body):
    type: Literal["text"]
    text: str


class ImageUrl(Body):
    url: str
    detail: Annotated[Any, _neutral("auto", "low", "high")] = None


class ImagePart(Body):
    type: Literal["image_url"]
    image_url: ImageUrl


ChatPart = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class ChatMessage(Body):
    """A turn; what an earlier answer holds beside its text may come back as it was."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ChatPart]
    name: Meaningless = None
    refusal: Meaningless = None
    audio: Meaningless = None
    function_call: Meaningless = None
    tool_calls: _Empty = None
    annotations: _Empty = None


class StreamOptions(Body):
    include_usage: bool | None = None
    include_obfuscation: Annotated[Any, _neutral(False)] = None


class ChatBody(AskBody):
    """``chat.completions.create``."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: _Tokens = None
    max_tokens: _Tokens = None
    stream_options: StreamOptions | None = None

    response_format: Annotated[Any, _neutral({"type": "text"})] = None
    modalities: Annotated[Any, _neutral(["text"])] = None
    logprobs: _Off = None
    frequency_penalty: _Off = None
    presence_penalty: _Off = None
    logit_bias: _Empty = None
    functions: _Empty = None
    function_call: Annotated[Any, _neutral("none", "auto")] = None
    audio: Meaningless = None
    prediction: Meaningless = None
    reasoning_effort: Meaningless = None
    verbosity: Meaningless = None
    web_search_options: Meaningless = None


class InputText(Body):
    type: Literal["input_text"]
    text: str


class OutputText(Body):
    type: Literal["output_text"]
    text: str
    annotations: _Empty = None
    logprobs: _Empty = None


class InputImage(Body):
    type: Literal["input_image"]
    image_url: str
    detail: Annotated[Any, _neutral("auto", "low", "high")] = None
    file_id: Meaningless = None


InputPart = Annotated[InputText | OutputText | InputImage, Field(discriminator="type")]


class InputMessage(Body):
    """A turn, or the output of an earlier response as it was."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputPart]
    type: Literal["message"] | None = None
    id: str | None = None
    status: str | None = None
    phase: Meaningless = None


class ResponseBody(AskBody):
    """``responses.create``."""

    input: str | Annotated[list[InputMessage], Field(min_length=1)]
    instructions: str | None = Field(None, description="the system's words")
    max_output_tokens: _Tokens = None
    background: bool | None = None
    stream_options: StreamOptions | None = None

    previous_response_id: _History = None
    conversation: _History = None
    text: Annotated[Any, _neutral({}, {"format": {"type": "text"}})] = None
    truncation: Annotated[Any, _neutral("disabled")] = None
    include: _Empty = None
    background_options: Meaningless = None
    context_management: Meaningless = None
    image: Meaningless = None
    max_tool_calls: Meaningless = None
    prompt: Meaningless = None
    reasoning: Meaningless = None


class BatchBody(Body):
    """``batches.create``; the callback is told ``batch.completed``."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/responses"]
    completion_window: Literal["24h"]
    metadata: Metadata | None = None
    output_expires_after: Meaningless = None
    callback: CallbackBody | None = None


class LineBody(Body):
    """A line of a batch's input."""

    custom_id: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    method: Literal["POST"]
    url: str
    body: dict[str, Any]
