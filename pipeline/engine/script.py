"""What the scripted engine says and how long it takes: pure functions of a sample's identity and question."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.engine.base import Position, TaskKey, TokenLogprob
from pipeline.errors import ConfigError
from pipeline.events import Message

# Of five samples of a question, about this many agree.
_AGREEING = 4
_LIST = re.compile(r"answers=(\S+)")
_CRASH = "crash=always"
_EARLIER = "earlier=answers"


class ScriptOptions(BaseModel):
    """Options of the scripted engine, from ``TALLYSTREAM_ENGINE__SCRIPT``.

    Attributes:
        min_ms: shortest sample.
        max_ms: longest sample.
        fail_rate: share of samples that end in an error.
        seed: other durations and failures for the same keys.
        rows: samples at once; the engine's rows if not set.
        broken: while this file is there, every sample fails by the engine's fault.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_ms: float = Field(0.0, ge=0)
    max_ms: float = Field(0.0, ge=0)
    fail_rate: float = Field(0.0, ge=0, le=1)
    seed: int = 0
    rows: int | None = Field(None, ge=1)
    broken: Path | None = None


class _Directive(BaseModel):
    """What a question may tell the script."""

    answers: list[str] = []


def parse_options(script: str) -> ScriptOptions:
    """Read the options; an empty text is all defaults.

    Raises:
        ConfigError: names what is wrong.
    """
    try:
        return ScriptOptions.model_validate_json(script or "{}")
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'text'}: {item['msg']}"
            for item in error.errors()
        )
        raise ConfigError(f"TALLYSTREAM_ENGINE__SCRIPT is wrong: {reasons}", field="engine.script") from error


_quoted = json.encoder.encode_basestring_ascii


def fraction(seed: int, name: str, key: TaskKey) -> float:
    """A number in [0, 1) that hangs on nothing but its arguments."""
    request_id, run, sample_index = key
    text = f"[{seed}, {_quoted(name)}, {_quoted(request_id)}, {run}, {sample_index}]"
    return zlib.crc32(text.encode()) / 2**32


def kills(messages: Sequence[Message]) -> bool:
    """Whether the process is to die as soon as a sample of this question begins: it says ``crash=always``."""
    return any(_CRASH in message.content for message in messages)


def answer_text(key: TaskKey, messages: Sequence[Message]) -> str:
    """The sample's text.

    A question may name the answers, by ``answers=a,b,c`` or a JSON object with ``answers``: sample i gives
    the i-th, from the start again after the last. By ``earlier=answers`` the answer is the answers of the turns
    before it, one behind the other, or 0. Else the answer is a number made from the question's
    first paragraph (a prompt path adds paragraphs), and one sample in five or so gives the next number.
    """
    question = next((message.content for message in reversed(messages) if message.role == "user"), "")
    answers = _named_answers(question)
    if answers:
        return f"The answer is {answers[key.sample_index % len(answers)]}"
    if _EARLIER in question:
        earlier = "".join(message.content for message in messages if message.role == "assistant")
        return f"The answer is {earlier or 0}"
    number = zlib.crc32(question.partition("\n\n")[0].encode()) % 1000
    strays = fraction(0, "stray", key) * 5 >= _AGREEING
    return f"The answer is {number + strays}"


def toy_positions(words: Sequence[str], logprob: float, top: int) -> tuple[Position, ...]:
    """Each word a token, as likely as all; behind it stand words of question marks, each a nat less likely."""
    return tuple(
        Position(
            TokenLogprob(None, logprob, word),
            tuple(TokenLogprob(None, logprob - rank, "?" * rank or word) for rank in range(top)),
        )
        for word in words
    )


def _named_answers(question: str) -> list[str]:
    found = _LIST.search(question)
    if found:
        return found[1].split(",")
    start = question.find("{")
    if start < 0:
        return []
    try:
        value, _ = json.JSONDecoder().raw_decode(question, start)
        return _Directive.model_validate(value).answers
    except ValueError:
        return []
