from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pipeline.delivery.guard import Guard
from pipeline.errors import InvalidRequestError
from pipeline.events import Callback, Kind, Message, Mode, SamplingOverrides, Session
from pipeline.gateway.bodies import parse_body
from pipeline.gateway.openai.asking import Asker, chat_request, response_request
from pipeline.gateway.openai.bodies import ChatBody, ResponseBody

ASKER = Asker("acme", Guard(allow_private=True, allowed_ports=()))
PIXEL = "data:image/png;base64," + base64.b64encode(b"png").decode()
TURN = {"role": "user", "content": "2 + 2?"}


def chat(**fields: Any) -> Any:
    body = {"model": "m", "messages": [TURN]} | fields
    return chat_request(parse_body(json.dumps(body).encode(), ChatBody), ASKER)


def response(**fields: Any) -> Any:
    body = {"model": "m", "input": "2 + 2?"} | fields
    return response_request(parse_body(json.dumps(body).encode(), ResponseBody), ASKER)


@pytest.mark.parametrize("ask", [chat, response])
def test_a_plain_call_is_one_sample_whose_text_is_the_answer(ask: Any) -> None:
    request = ask()
    assert (request.mode, request.kind, request.tenant, request.priority) == (Mode.FAST, Kind.OPEN, "acme", 3)
    assert request.messages == (Message("user", "2 + 2?"),)
    assert (request.request_id, request.metadata, request.callback) == ("", {}, None)


@pytest.mark.parametrize("ask", [chat, response])
def test_several_samples_vote(ask: Any) -> None:
    assert ask(n=3).mode is Mode.STANDARD
    assert ask(n=3, mode="deep").mode is Mode.DEEP
    assert (ask(n=1).mode, ask(kind="answer").kind) == (Mode.FAST, Kind.ANSWER)


def test_sampling_is_the_requests() -> None:
    told = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "n": 2}
    wanted = SamplingOverrides(n=2, temperature=0.5, top_p=0.9, max_new_tokens=9, seed=7, stop=("x",))
    assert chat(**told, max_completion_tokens=9, stop="x").sampling == wanted
    assert chat(**told, max_tokens=9, stop=["x"]).sampling == wanted
    assert response(**told, max_output_tokens=9, stop="x").sampling == wanted
    with pytest.raises(InvalidRequestError, match="send one"):
        chat(max_tokens=9, max_completion_tokens=8)


def test_what_rides_along() -> None:
    url = "http://127.0.0.1:1/x"
    request = response(
        metadata={"a": "b"},
        user="u",
        session="s",
        priority=0,
        deadline_ms=5,
        callback={"url": url},
        tests="t",
        cache="allow",
    )
    assert request.metadata == {"user": "u", "a": "b"}
    assert request.session == Session("u", "s")
    assert (request.priority, request.deadline_ms, request.tests, request.cache) == (0, 5, "t", "allow")
    assert request.callback == Callback(url, "default", ("openai",))
    assert chat(session={"user": "v", "session": "s"}).session == Session("v", "s")


def test_turns_of_a_response() -> None:
    request = response(
        instructions="Be brief.",
        input=[
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            },
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "c", "annotations": [], "logprobs": []}],
            },
            {"role": "developer", "content": "d"},
        ],
    )
    turns = [("system", "Be brief."), ("user", "a\nb"), ("assistant", "c"), ("system", "d")]
    assert [(turn.role, turn.content) for turn in request.messages] == turns


def test_images_are_data_urls_only() -> None:
    parts = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    request = chat(messages=[{"role": "user", "content": parts}])
    assert (request.images, request.kind, request.messages[0].content) == ((b"png",), Kind.VISION, "?")
    for url in ("http://127.0.0.1/x.png", "data:image/png;base64,***", "data:image/png,abc"):
        with pytest.raises(InvalidRequestError) as refused:
            response(input=[{"role": "user", "content": [{"type": "input_image", "image_url": url}]}])
        assert refused.value.field == "input"


NEUTRAL: list[tuple[Any, dict[str, Any]]] = [
    (chat, {"tools": [], "tool_choice": "none", "logit_bias": {}, "logprobs": False, "presence_penalty": 0}),
    (chat, {"response_format": {"type": "text"}, "modalities": ["text"], "store": True, "audio": None}),
    (chat, {"messages": [{"role": "assistant", "content": "a", "refusal": None, "tool_calls": None}, TURN]}),
    (
        response,
        {"text": {"format": {"type": "text"}}, "truncation": "disabled", "include": [], "reasoning": None},
    ),
]
MEANINGLESS: list[tuple[Any, str, Any]] = [
    (chat, "tools", [{"type": "function"}]),
    (chat, "tool_choice", "required"),
    (chat, "response_format", {"type": "json_object"}),
    (chat, "logit_bias", {"1": 1}),
    (chat, "audio", {"voice": "x"}),
    (chat, "presence_penalty", 0.1),
    (chat, "frequency_penalty", -1),
    (chat, "logprobs", True),
    (chat, "store", False),
    (chat, "service_tier", "flex"),
    (chat, "reasoning_effort", "low"),
    (chat, "no_such_thing", 1),
    (chat, "metadata", {str(number): "" for number in range(17)}),
    (chat, "temperature", 3),
    (chat, "seed", -1),
    (chat, "messages", []),
    (response, "tools", [{"type": "web_search"}]),
    (response, "previous_response_id", "resp_1"),
    (response, "conversation", "conv_1"),
    (response, "truncation", "auto"),
    (response, "text", {"format": {"type": "json_schema"}}),
    (response, "reasoning", {"effort": "low"}),
    (response, "include", ["message.output_text.logprobs"]),
]


@pytest.mark.parametrize(("ask", "fields"), NEUTRAL)
def test_neutral_values_change_nothing(ask: Any, fields: dict[str, Any]) -> None:
    assert ask(**fields).sampling == SamplingOverrides()


@pytest.mark.parametrize(("ask", "name", "value"), MEANINGLESS)
def test_what_has_no_meaning_is_refused_by_name(ask: Any, name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        ask(**{name: value})
    assert refused.value.field is not None
    assert refused.value.field.split(".")[0] == name
