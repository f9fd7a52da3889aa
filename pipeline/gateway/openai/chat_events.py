"""The chunks of a chat completion that is streamed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.errors import TaskFailedError
from pipeline.gateway.openai.answers import chat_id, chat_usage, choices_of
from pipeline.gateway.openai.errors import error_document
from pipeline.gateway.openai.text_so_far import TextSoFar
from pipeline.store.tasks import Task

Chunk = dict[str, Any]


class ChatEvents:
    """
    Args:
        usage: whether a last chunk tells it.
    """

    def __init__(self, task: Task, model: str, *, usage: bool) -> None:
        self._head: Chunk = {
            "id": chat_id(task.request.request_id),
            "object": "chat.completion.chunk",
            "created": task.accepted_at // 1000,
            "model": model,
        }
        self._usage = usage
        self._text = TextSoFar()
        self._begun = False

    def preview(self, text: str) -> Iterator[Chunk]:
        """Tokens of the one sample, as they come."""
        yield from self._say(0, self._text.preview(text))

    def gap(self) -> None:
        self._text.gap()

    def answered(self, task: Task) -> Iterator[Chunk]:
        """The end: what was not told of the winner's text, then the other samples'."""
        for index, (text, reason) in enumerate(choices_of(task)):
            rest = text if index else self._text.final(text)
            if rest is None:
                yield error_document(
                    TaskFailedError("the sample was drawn anew, and its text is another one")
                )
                return
            yield from self._say(index, rest, first=index > 0 or not self._begun)
            yield self._chunk(index, {}, reason)
        if self._usage and task.result is not None:
            yield {**self._head, "choices": [], "usage": chat_usage(task.result)}

    def _say(self, index: int, text: str, *, first: bool = False) -> Iterator[Chunk]:
        if index == 0:
            first, self._begun = not self._begun, self._begun or bool(text)
        if text or first:
            yield self._chunk(index, ({"role": "assistant"} if first else {}) | {"content": text})

    def _chunk(self, index: int, delta: dict[str, str], reason: str | None = None) -> Chunk:
        choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head, "choices": [choice]}
