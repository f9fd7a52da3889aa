"""The events of a response that is streamed. Pure.

An event's sequence number says how much of the text has been told with it, so it is the same however the tokens
were cut and whichever gateway tells them, and a reader goes on behind any of them: see
docs/adr/0054-openai-clients-ask-tasks.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.gateway.openai.answers import message_item, text_part
from pipeline.gateway.openai.text_so_far import TextSoFar

_CREATED, _WORKING, _ITEM, _PART = range(4)
Event = dict[str, Any]


class ResponseEvents:
    """
    Args:
        request_id: of the task.
        after: number of the last event that the reader has; -1: none.
    """

    def __init__(self, request_id: str, after: int = -1) -> None:
        self._request_id, self._after = request_id, after
        self._text = TextSoFar(max(after - _PART, 0))
        self._said = -1

    def created(self, response: Event) -> Iterator[Event]:
        yield from self._event(_CREATED, "response.created", response=response)

    def working(self, response: Event) -> Iterator[Event]:
        yield from self._event(_WORKING, "response.in_progress", response=response)

    def preview(self, response: Event, text: str) -> Iterator[Event]:
        """Tokens of the one sample, as they come."""
        yield from self._open(response)
        yield from self._delta(self._text.preview(text))

    def gap(self) -> None:
        self._text.gap()

    def answered(self, working: Event, response: Event, text: str) -> Iterator[Event]:
        """The end, with a text; where previews were of another text, it is in the last events alone."""
        yield from self._open(working)
        yield from self._delta(self._text.final(text) or "")
        last = _PART + max(len(text), len(self._text.seen))
        status = "completed" if response["status"] == "completed" else "incomplete"
        place, part = self._place(), text_part(text)
        item = message_item(self._request_id, text, status)
        yield from self._event(last + 1, "response.output_text.done", **place, text=text, logprobs=[])
        yield from self._event(last + 2, "response.content_part.done", **place, part=part)
        yield from self._event(last + 3, "response.output_item.done", output_index=0, item=item)
        yield from self._event(last + 4, f"response.{status}", response=response)

    def broken_off(self, working: Event, response: Event) -> Iterator[Event]:
        """The end, without a text: failed, or cancelled, for which OpenAI has no event of its own."""
        yield from self.working(working)
        kind = "failed" if response["status"] == "failed" else "incomplete"
        yield from self._event(_PART + self._text.told + 1, f"response.{kind}", response=response)

    def _open(self, response: Event) -> Iterator[Event]:
        yield from self.working(response)
        item = message_item(self._request_id, None, "in_progress")
        yield from self._event(_ITEM, "response.output_item.added", output_index=0, item=item)
        yield from self._event(_PART, "response.content_part.added", **self._place(), part=text_part(""))

    def _delta(self, text: str) -> Iterator[Event]:
        if text:
            number = _PART + self._text.told
            yield from self._event(
                number, "response.output_text.delta", **self._place(), delta=text, logprobs=[]
            )

    def _place(self) -> dict[str, Any]:
        return {
            "item_id": message_item(self._request_id, None, "")["id"],
            "output_index": 0,
            "content_index": 0,
        }

    def _event(self, number: int, kind: str, **fields: Any) -> Iterator[Event]:
        """Each number once, in order, and none that the reader has."""
        if number > max(self._said, self._after):
            self._said = number
            yield {"type": kind, "sequence_number": number, **fields}
