"""From chat turns to token ids: the model's chat template, a plain fallback, and exactly one BOS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pipeline.errors import BadMessagesError, EmptyPromptError
from pipeline.events import Message


class PromptEncoder:
    """Turns messages into token ids; the newest few are remembered, since siblings share a prompt."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._adds_bos = _adds_bos(tokenizer)
        self.encode = lru_cache(maxsize=64)(self._encode)

    def _encode(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Token ids of a prompt that is ready for the assistant's turn.

        Raises:
            EmptyPromptError: there is nothing to answer.
            BadMessagesError: the chat template refuses the turns, or nothing can be read of them.
        """
        if not any(message.content.strip() for message in messages if message.role != "system"):
            raise EmptyPromptError("The prompt is empty")
        text = self._render(messages) if self._tokenizer.chat_template else render_plain(messages)
        # A template writes the special tokens itself; asking for them again would double the BOS.
        try:
            ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        except Exception as error:
            raise BadMessagesError(f"The model's tokenizer can not read the messages: {error}") from error
        bos = self._tokenizer.bos_token_id
        if self._adds_bos and ids[:1] != [bos]:
            ids = [bos, *ids]
        if not ids:
            raise BadMessagesError("The model's chat template makes nothing of the messages")
        return tuple(ids)

    def _render(self, messages: Sequence[Message]) -> str:
        try:
            return self._apply_template(messages)
        except Exception as error:
            folded = fold_system(messages)
            if folded == tuple(messages):
                raise BadMessagesError(f"The model's chat template refuses the messages: {error}") from error
        # Some models (Gemma, early Mistral) have no system turn.
        try:
            return self._apply_template(folded)
        except Exception as error:
            raise BadMessagesError(f"The model's chat template refuses the messages: {error}") from error

    def _apply_template(self, messages: Sequence[Message]) -> str:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        text: str = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return text


def render_plain(messages: Sequence[Message]) -> str:
    """The prompt for a tokenizer without a chat template: ``User: …`` lines, then ``Assistant:``."""
    lines = [f"{message.role.capitalize()}: {message.content}" for message in messages]
    return "\n".join([*lines, "Assistant:"])


def fold_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same turns with the system's text put before the first user turn."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"]
    if not system or not turns:
        return tuple(messages)
    first = Message(turns[0].role, f"{system}\n\n{turns[0].content}")
    return (first, *turns[1:])


def _adds_bos(tokenizer: Any) -> bool:
    if tokenizer.bos_token_id is None:
        return False
    ids: list[int] = tokenizer("a")["input_ids"]
    return ids[:1] == [tokenizer.bos_token_id]
