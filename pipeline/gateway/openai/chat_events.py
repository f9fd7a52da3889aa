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
        self._begun: set[int] = set()

    def preview(self, text: str) -> Iterator[Chunk]:
        """Tokens of the one sample, as they come."""
        if new := self._text.preview(text):
            yield self._say(0, new)

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
            if rest or index not in self._begun:
                yield self._say(index, rest)
            yield self._chunk(index, {}, reason)
        if self._usage and task.result is not None:
            yield {**self._head, "choices": [], "usage": chat_usage(task.result)}

    def _say(self, index: int, text: str) -> Chunk:
        role = {} if index in self._begun else {"role": "assistant"}
        self._begun.add(index)
        return self._chunk(index, role | {"content": text})

    def _chunk(self, index: int, delta: dict[str, str], reason: str | None = None) -> Chunk:
        choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head, "choices": [choice]}
