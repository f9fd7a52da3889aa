"""What a conversation hands on: earlier turns before the new one, within a limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.events import Conversation, Exchange, InferenceRequest, Message, RunningTurn

LARGEST_SYSTEM = 32 * 1024
"""Bytes of the system's messages; longer ones are a request's own and are not kept."""
_BYTES_A_TOKEN = 4
_FRAME = 4
"""Tokens around a message in a chat template."""


def tokens_of(messages: Iterable[Message]) -> int:
    """An estimate, for whoever keeps a history has no tokenizer: a token is about four bytes of English."""
    return sum(_FRAME + -(-len(message.content.encode()) // _BYTES_A_TOKEN) for message in messages)


def with_history(request: InferenceRequest, kept: Conversation, place: int) -> InferenceRequest:
    """The request with what the turns before its ``place`` have left; a system message of its own wins."""
    system, said = _parted(_messages_of(request))
    before = (exchange.messages for exchange in kept.history if exchange.place < place)
    earlier = tuple(message for messages in before for message in messages)
    return replace(request, prompt="", messages=(*(system or kept.system), *earlier, *said))


def to_remember(request: InferenceRequest, tokens: int) -> tuple[Message, ...]:
    """What of a request can be kept when it is answered: what is longer than a history may be, can not."""
    system, said = _parted(_messages_of(request))
    if sum(len(message.content.encode()) for message in system) > LARGEST_SYSTEM:
        system = ()
    return (*system, *(said if tokens_of(said) <= tokens else ()))


def remembered(kept: Conversation, turn: RunningTurn, answer: str, tokens: int) -> Conversation:
    """The conversation with an answered turn in its place; the oldest are dropped, the system's messages never."""
    own, said = _parted(turn.messages)
    system = own or kept.system
    if not said:  # too long to be kept, and nothing is kept from before what is not
        return replace(kept, system=system, history=())
    exchange = Exchange(turn.place, (*said, Message("assistant", answer)))
    turns = sorted((*kept.history, exchange), key=lambda one: one.place)
    return replace(kept, system=system, history=_youngest(turns, tokens - tokens_of(system)))


def _messages_of(request: InferenceRequest) -> tuple[Message, ...]:
    return request.messages or (Message("user", request.prompt),)


def _parted(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The system's messages, and the others."""
    system = tuple(message for message in messages if message.role == "system")
    return system, tuple(message for message in messages if message.role != "system")


def _youngest(turns: Sequence[Exchange], tokens: int) -> tuple[Exchange, ...]:
    for first in range(len(turns)):
        if sum(tokens_of(turn.messages) for turn in turns[first:]) <= tokens:
            return tuple(turns[first:])
    return ()
