"""The tasks of the engine's measures: prompts of a wanted length, answers of a fixed one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.engine.model import LoadedModel
from pipeline.engine.prompts import PromptEncoder
from pipeline.events import Message

_WORDS = (
    "river",
    "stone",
    "cloud",
    "seven",
    "under",
    "green",
    "paper",
    "night",
    "moves",
    "slowly",
    "open",
    "door",
)


@dataclass(frozen=True, slots=True)
class Work:
    """One answer to draw: the prompt as turns and as token ids, and how many tokens to draw."""

    messages: tuple[Message, ...]
    ids: tuple[int, ...]
    new_tokens: int


def mixed(loaded: LoadedModel, tasks: int) -> list[Work]:
    """Prompts of 16 to 48 tokens more than the template's, answers of 8 to 128 tokens."""
    chance = random.Random(1)
    return [work(loaded, chance, chance.randint(16, 48), chance.randint(8, 128)) for _ in range(tasks)]


def uniform(loaded: LoadedModel, tasks: int, prompt: int, new_tokens: int) -> list[Work]:
    """Different prompts of about the same length, answers of the same."""
    chance = random.Random(2)
    return [work(loaded, chance, prompt, new_tokens) for _ in range(tasks)]


def work(loaded: LoadedModel, chance: random.Random, prompt: int, new_tokens: int) -> Work:
    """A prompt of random words that has at least ``prompt`` tokens."""
    encode = PromptEncoder(loaded.tokenizer).encode
    words = [str(chance.randrange(10**6))]
    while True:
        messages = (Message("user", " ".join(words)),)
        ids = encode(messages)
        if len(ids) >= prompt:
            return Work(messages, ids, new_tokens)
        words += chance.choices(_WORDS, k=max(1, (prompt - len(ids)) // 8))


def tokens(works: Sequence[Work]) -> int:
    """How many tokens are drawn for all."""
    return sum(each.new_tokens for each in works)
