from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import Status
from pipeline.gateway.openai.answers import response_document, text_of
from pipeline.gateway.openai.chat_events import ChatEvents
from pipeline.gateway.openai.response_events import ResponseEvents
from pipeline.gateway.openai.text_so_far import TextSoFar
from tests.unit.gateway.openai_results import chain, task_of

cuts = st.lists(st.text(max_size=5), max_size=8)


@given(cuts, st.text(max_size=5), st.integers(0, 40), st.integers(0, 9))
def test_a_reader_has_always_a_beginning_and_at_last_the_whole(
    previews: list[str], tail: str, had: int, lost: int
) -> None:
    whole = "".join(previews) + tail
    had = min(had, len(whole))
    text, told = TextSoFar(had), whole[:had]
    for number, preview in enumerate(previews):
        if number == lost:
            text.gap()
            continue
        told += text.preview(preview)
        assert whole.startswith(told)
    assert told + (text.final(whole) or "") == whole


def test_another_text_is_known_as_one() -> None:
    text = TextSoFar()
    text.preview("The cat")
    assert text.final("The dog") is None


def _events(previews: list[str], text: str, after: int = -1) -> list[dict[str, Any]]:
    task = task_of(reasoning=(chain(1, text),))
    running = response_document(task_of(Status.RUNNING), "m")
    ended = response_document(task, "m")
    events = ResponseEvents("t-1", after)
    told = [*events.created(running), *events.working(running)]
    for preview in previews:
        told += events.preview(running, preview)
    return [*told, *events.answered(running, ended, text_of(task.result))]


def _said(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


@given(cuts, cuts, st.text(max_size=5), st.integers(0, 60))
def test_a_stream_goes_on_behind_any_event(first: list[str], again: list[str], tail: str, place: int) -> None:
    """Whatever the cuts of the tokens were, here and on the connection that was lost."""
    text = "".join(first) + tail
    events = _events(first, text)
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert _said(events) == text
    assert [event["type"] for event in events][-1] == "response.completed"
    had = events[: place % len(events) + 1]
    rest = _events(
        [part for part in again if text.startswith("".join(again))], text, had[-1]["sequence_number"]
    )
    assert _said(had) + _said(rest) == text
    kinds = [event["type"] for event in [*had, *rest] if "delta" not in event["type"]]
    assert kinds == [event["type"] for event in events if "delta" not in event["type"]]


def test_previews_of_another_text_leave_the_truth_to_the_last_events() -> None:
    events = _events(["The cat"], "The dog")
    done = {event["type"]: event for event in events}
    assert done["response.output_text.done"]["text"] == "The dog"
    assert done["response.completed"]["response"]["output"][0]["content"][0]["text"] == "The dog"


def test_a_response_without_a_text() -> None:
    for status, kind in ((Status.FAILED, "response.failed"), (Status.CANCELLED, "response.incomplete")):
        events = ResponseEvents("t-1")
        running = response_document(task_of(Status.RUNNING), "m")
        told = list(events.broken_off(running, response_document(task_of(status, answer=None), "m")))
        assert [event["type"] for event in told] == ["response.in_progress", kind]


def _chunks(previews: list[str], n: int | None, text: str) -> list[dict[str, Any]]:
    task = task_of(n=n, reasoning=(chain(0, "other"), chain(1, text)))
    events = ChatEvents(task, "m", usage=True)
    return [chunk for preview in previews for chunk in events.preview(preview)] + list(events.answered(task))


@given(cuts, st.text(max_size=5), st.sampled_from([None, 2]))
def test_chunks_make_the_text(previews: list[str], tail: str, n: int | None) -> None:
    text = "".join(previews) + tail
    chunks = _chunks(previews, n, text)
    assert chunks[-1]["usage"]["total_tokens"] == 30
    said: dict[int, str] = {}
    roles: list[int] = []
    for chunk in chunks[:-1]:
        (choice,) = chunk["choices"]
        said[choice["index"]] = said.get(choice["index"], "") + choice["delta"].get("content", "")
        roles += [choice["index"]] * ("role" in choice["delta"])
    assert said == {0: text} | ({1: "other"} if n else {})
    assert roles == sorted(said), "each begins once with its role"


def test_chunks_of_another_text_are_an_error() -> None:
    assert "error" in _chunks(["The cat"], None, "The dog")[-1]
