from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipeline.delivery.payload import new_delivery, wanted
from pipeline.errors import InvalidRequestError, TaskFailedError, WaitLimitError
from pipeline.events import Callback, ErrorInfo, FinishReason, Role, Status, Vote
from pipeline.gateway.openai.answers import chat_document, metadata_of, response_document, text_of
from pipeline.gateway.openai.chat import check_answered
from tests.unit.gateway.openai_results import NOW, chain, task_of

CUT = (chain(1, "It is", FinishReason.LENGTH),)


@pytest.mark.parametrize(
    ("status", "changes", "told"),
    [
        (Status.PENDING, {}, "queued"),
        (Status.RUNNING, {}, "in_progress"),
        (Status.DONE, {}, "completed"),
        (Status.DONE, {"reasoning": CUT}, "incomplete"),
        (Status.PARTIAL_DONE, {}, "incomplete"),
        (Status.NEEDS_CLARIFICATION, {"clarifying_question": "Which?"}, "completed"),
        (Status.FAILED, {"error": ErrorInfo("broken", "down", True)}, "failed"),
        (Status.CANCELLED, {}, "cancelled"),
    ],
)
def test_a_responses_status(status: Status, changes: dict[str, object], told: str) -> None:
    document = response_document(task_of(status, **changes), "m")
    assert (document["status"], document["id"]) == (told, "resp_t-1")
    assert bool(document["output"]) == (told in ("completed", "incomplete"))
    assert (document["error"] is not None) == (told == "failed")
    cut = document["incomplete_details"]
    assert cut == ({"reason": "max_output_tokens"} if changes.get("reasoning") == CUT else None)


def test_the_text_is_the_winners() -> None:
    assert text_of(task_of().result) == "It is 7"
    assert text_of(task_of(chosen_sample=None).result) == "7"
    asks = task_of(Status.NEEDS_CLARIFICATION, clarifying_question="Which?", chosen_sample=0)
    assert text_of(asks.result) == "Which?"


def test_choices_are_the_winner_and_the_others_drawn() -> None:
    chains = (
        chain(0, "It is 8"),
        chain(1, "It is 7", FinishReason.LENGTH),
        chain(2, "", FinishReason.CANCELLED),
        chain(3, "judged", role=Role.REVIEW),
        chain(4, "So 7"),
    )
    document = chat_document(task_of(n=4, reasoning=chains), "m")
    told = [(choice["message"]["content"], choice["finish_reason"]) for choice in document["choices"]]
    assert told == [("It is 7", "length"), ("It is 8", "stop"), ("So 7", "stop")]
    assert [choice["index"] for choice in document["choices"]] == [0, 1, 2]
    assert len(chat_document(task_of(reasoning=chains), "m")["choices"]) == 1
    assert document["usage"] == {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}


def test_metadata_keeps_what_was_given_and_stays_in_bounds() -> None:
    told = metadata_of(task_of(metadata={"answer": "mine", "a": "b"}))
    assert (told["answer"], told["a"], told["status"], told["confidence"]) == ("mine", "b", "done", "0.9")
    votes = tuple(Vote("x" * 1000, 1, 0.5, 0.5, (i,)) for i in range(40))
    full = {f"k{number}": "v" for number in range(15)}
    told = metadata_of(task_of(metadata=full, votes=votes, answer="é" * 2000))
    assert told == full | {"status": "done"}
    told = metadata_of(task_of(votes=votes, answer="é" * 2000))
    assert all(len(text) <= 512 for text in told.values())
    assert json.loads(told["votes"])[0]["count"] == 1


def test_who_waits_is_told_why_there_is_no_answer() -> None:
    check_answered(task_of())
    for status, error, raised in (
        (Status.RUNNING, None, WaitLimitError),
        (Status.CANCELLED, None, TaskFailedError),
        (Status.FAILED, None, TaskFailedError),
        (Status.FAILED, ErrorInfo("model_down", "away", True), TaskFailedError),
        (Status.FAILED, ErrorInfo("prompt_too_long", "9000 tokens", False), InvalidRequestError),
    ):
        with pytest.raises(raised):
            check_answered(task_of(status, error=error))


@pytest.mark.parametrize(
    ("status", "event"),
    [
        (Status.DONE, "response.completed"),
        (Status.PARTIAL_DONE, "response.incomplete"),
        (Status.FAILED, "response.failed"),
        (Status.CANCELLED, "response.cancelled"),
    ],
)
def test_a_callback_of_openais_form(status: Status, event: str) -> None:
    result = task_of(status, callback=Callback("http://x/", events=("openai",))).result
    assert result is not None
    assert wanted(result)
    delivery = new_delivery(result, NOW)
    assert delivery is not None
    body = json.loads(delivery.body)
    assert delivery.event == body["type"] == event
    assert body["data"] == {"id": "resp_t-1"}
    assert body["id"] == "evt_" + delivery.delivery_id.removeprefix("dlv_")
    assert (body["object"], body["created_at"]) == ("event", NOW // 1000 + 1)


def test_a_first_answer_is_no_event_of_openais() -> None:
    result = task_of(Status.DONE, callback=Callback("http://x/", events=("openai",))).result
    assert result is not None
    assert new_delivery(replace(result, status=Status.FIRST_ANSWER), NOW) is None
