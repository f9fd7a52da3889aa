"""The events as a client reads them: a name, and JSON in one line."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pipeline.events import Delivery, Progress, Result, Sample, Vote
from pipeline.fusion.stop_rules import stays_ahead
from pipeline.live.feed import End, Gap, Happened, Moved, Tokens, Told
from pipeline.live.record import Heard

_SEPARATORS: Final = {text.encode(): f"\\u{ord(text):04x}".encode() for text in "\u0085\u2028\u2029"}
_MOST_WAYS: Final = 512
"""Samples of one request of which a posterior is computed; no request may ask for so many."""


def json_line(value: Any) -> bytes:
    """JSON that no reader can take for several lines: also U+0085, U+2028 and U+2029 are escaped.

    Outside of strings JSON has no such character, and no other character's UTF-8 holds these bytes.
    """
    data = msgspec.json.encode(value)
    for text, escaped in _SEPARATORS.items():
        data = data.replace(text, escaped)
    return data


def name_of(told: Told) -> str:
    match told:
        case Moved():
            return "state"
        case Tokens():
            return "tokens"
        case Gap():
            return "gap"
        case End():
            return "end"
        case Happened():
            return _name_of(told.record.event)


def plain_data(told: Moved | Tokens | Gap | End) -> bytes:
    """The data of what is made of no single record."""
    match told:
        case Moved():
            return json_line({"status": told.status})
        case Tokens():
            return json_line({"sample": told.sample, "text": told.text})
        case Gap():
            return json_line({"dropped": told.dropped})
        case End():
            return b"{}"


def sample_data(sample: Sample) -> bytes:
    return json_line(
        {
            "sample": sample.sample_index,
            "role": sample.role,
            "path": sample.path,
            "finish_reason": sample.finish_reason,
            "text": sample.text,
            "completion_tokens": sample.completion_tokens,
            "error": sample.error,
        }
    )


def delivery_data(delivery: Delivery) -> bytes:
    """Without the body, the URL and what signs it."""
    return json_line(
        {
            "id": delivery.delivery_id,
            "event": delivery.event,
            "state": delivery.state,
            "attempt": delivery.attempt,
            "status_code": delivery.status_code,
            "error": delivery.error,
        }
    )


def first_answer_data(result: Result) -> bytes:
    """What a task's document says of its answer, of an answer that a later one may take the place of."""
    return json_line(
        {
            "revision": result.revision,
            "answer": result.answer,
            "confidence": result.confidence,
            "why": result.why,
            "votes": result.votes,
        }
    )


def votes_data(votes: tuple[Vote, ...], expected: int | None) -> bytes:
    """
    Args:
        votes: best first.
        expected: samples of the request, if that is known; without, nobody knows what the missing ones can do.
    """
    counts = [vote.count for vote in votes]
    told = sum(counts)
    leader = votes[0].answer if votes else None
    stays = None
    if votes and expected is not None and expected <= _MOST_WAYS:
        stays = float(stays_ahead(counts[0], max(counts[1:], default=0), max(expected - told, 0)))
    return json_line(
        {
            "votes": votes,
            "leader": leader,
            "votes_in": told,
            "expected": expected,
            "stays_ahead": stays,
        }
    )


def _name_of(event: Heard) -> str:
    match event:
        case Sample():
            return "sample"
        case Result():
            return "result" if event.status.terminal else "first_answer"
        case Delivery():
            return "delivery"
        case Progress():
            return "votes"
        case _:
            raise AssertionError(f"a {type(event).__name__} is told to nobody")
