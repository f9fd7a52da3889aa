import json
import math
from dataclasses import replace

import pytest

from pipeline.delivery.payload import body_of, delivery_id, event_of, new_delivery, wanted
from pipeline.events import (
    Callback,
    Chain,
    DeliveryState,
    ErrorInfo,
    FinishReason,
    HopTimings,
    Kind,
    Mode,
    Result,
    Role,
    Status,
    Usage,
    Vote,
)

CALLBACK = Callback("http://hooks.example.com/in", "default", ("done",))


def chain(index: int, text: str) -> Chain:
    return Chain(index, Role.ANSWER, "cot", text, "42", 1.0, FinishReason.STOP)


RESULT = Result(
    request_id="r1",
    run=0,
    revision=1,
    status=Status.DONE,
    tenant="t",
    priority=3,
    mode=Mode.STANDARD,
    kind=Kind.ANSWER,
    answer="四十二",
    chosen_sample=1,
    confidence=0.9,
    votes=(Vote("四十二", 2, 0.9, 1.8, (0, 1)),),
    reasoning=(chain(0, "LOSER"), chain(1, "the chosen \u2028 text")),
    usage=Usage(10, 20, 5, 3, 2),
    timings=HopTimings(1, 2, 3, 4, 1_700_000_000_123),
    callback=CALLBACK,
    metadata={"b": "2", "a": "1"},
)


def test_the_body() -> None:
    body = body_of(RESULT, "done")
    document = json.loads(body)
    assert document["type"] == "tallystream.result.done"
    assert document["timestamp"] == "2023-11-14T22:13:20.123Z"
    data = document["data"]
    assert (data["request_id"], data["run"], data["revision"], data["status"]) == ("r1", 0, 1, "done")
    assert data["votes"] == [
        {"answer": "四十二", "count": 2, "confidence": 0.9, "score": 1.8, "samples": [0, 1], "review": None}
    ]
    assert data["chosen_text"] == "the chosen \u2028 text"
    assert (data["mode"], data["priority"], data["tenant"], data["error"]) == ("standard", 3, "t", None)
    assert data["usage"]["saved_tokens"] == 5 and data["timings"]["finished_at"] == 1_700_000_000_123
    assert "四十二".encode() in body and b"LOSER" not in body and b'": ' not in body


def test_the_same_result_gives_the_same_bytes() -> None:
    assert body_of(RESULT, "done") == body_of(replace(RESULT, metadata={"a": "1", "b": "2"}), "done")


def test_a_failure_is_told() -> None:
    failed = replace(
        RESULT,
        status=Status.FAILED,
        answer=None,
        chosen_sample=None,
        error=ErrorInfo("timeout", "late", True),
    )
    data = json.loads(body_of(failed, "done"))["data"]
    assert data["error"] == {"code": "timeout", "message": "late", "retriable": True}
    assert data["chosen_text"] is None


def test_numbers_and_text_that_json_has_not() -> None:
    odd = replace(
        RESULT,
        confidence=math.nan,
        votes=(Vote("a", 1, math.inf, -math.inf, (0,)),),
        reasoning=(chain(1, "half \ud83d a pair"),),
    )
    data = json.loads(body_of(odd, "done"), parse_constant=pytest.fail)["data"]
    assert data["confidence"] is None
    assert (data["votes"][0]["confidence"], data["votes"][0]["score"]) == (None, None)


@pytest.mark.parametrize("status", list(Status))
def test_which_result_is_which_event(status: Status) -> None:
    result = replace(RESULT, status=status)
    expected = {"first_answer": "first_answer", "pending": None, "running": None}.get(status, "done")
    assert event_of(result) == expected
    assert wanted(result) == (expected == "done")
    assert wanted(replace(result, callback=replace(CALLBACK, events=("first_answer",)))) == (
        expected == "first_answer"
    )
    assert not wanted(replace(result, callback=None))
    assert (new_delivery(result, 5) is not None) == wanted(result)


def test_the_id_follows_the_result_and_the_endpoint_only() -> None:
    one = delivery_id("r1", 0, 1, "http://a/")
    assert one == delivery_id("r1", 0, 1, "http://a/")
    others = [
        ("r1", 0, 2, "http://a/"),
        ("r1", 1, 1, "http://a/"),
        ("r2", 0, 1, "http://a/"),
        ("r1", 0, 1, "http://b/"),
    ]
    assert len({one, *(delivery_id(*other) for other in others)}) == 5
    assert one.startswith("dlv_") and "." not in one


def test_a_new_delivery_is_due_at_once() -> None:
    made = new_delivery(RESULT, 77)
    assert made is not None
    assert (made.state, made.attempt, made.next_due_at, made.event) == (DeliveryState.PENDING, 0, 77, "done")
    assert made.body == body_of(RESULT, "done")
    assert made.delivery_id == new_delivery(RESULT, 99).delivery_id  # type: ignore[union-attr]
