"""What a request may look like. Each refusal names the field and the fix."""

from __future__ import annotations

import math

from pipeline.engine.params import MOST_TOP_LOGPROBS
from pipeline.errors import DecodeError, InvalidRequestError, PayloadTooLargeError, WrongPartitionError
from pipeline.events import PRIORITIES, Event, InferenceRequest, Kind, Session
from pipeline.settings import LimitSettings
from pipeline.topics import REQUESTS, largest_record, request_partition

_LONGEST_ID = 128
_LONGEST_URL = 2_048
_MOST_EVENTS = 8
_LARGEST_METADATA = 65_536
"""It travels in the marker, in every result and, escaped, in every callback."""
_MOST_STOPS, _LONGEST_STOP = 16, 256
_LONGEST_DEADLINE_MS = 2**40
_LARGEST_SEED = 2**62
_LEAST_PENALTY, _MOST_PENALTY = 0.1, 10
"""Logits are some tens: beyond these, one repeated token decides everything, and far beyond, they overflow."""


def check_run(request_id: str, run: int) -> None:
    """Refuse what can name no request.

    Raises:
        InvalidRequestError: names the field.
    """
    _check(
        _is_name(request_id),
        "request_id",
        f"must be 1 to {_LONGEST_ID} printable characters",
    )
    _check(run >= 0, "run", "must not be negative")


def check_routed(event: Event, partition: int, shards: int) -> InferenceRequest:
    """Refuse what the batcher parks: the request of a record that is one, and stands where it belongs.

    Args:
        partition: of ``requests``, on which the record stands.

    Raises:
        DecodeError: another event, or another partition's request.
        InvalidRequestError: it can not be routed; names the field.
    """
    if not isinstance(event, InferenceRequest):
        raise DecodeError(f"a {type(event).__name__} on {REQUESTS}")
    check_identity(event)
    wanted = request_partition(event.request_id, event.priority, shards)
    if wanted != partition:
        raise WrongPartitionError(
            f"{event.request_id!r} with priority {event.priority} belongs on partition {wanted}, not {partition}"
        )
    return event


def check_identity(request: InferenceRequest) -> None:
    """Refuse what can not even be routed or answered: its record goes to dead-letters.

    Raises:
        InvalidRequestError: names the field.
    """
    check_run(request.request_id, request.run)
    _check(
        0 <= request.priority < PRIORITIES,
        "priority",
        f"must be 0 to {PRIORITIES - 1}, not {request.priority}",
    )
    _check(
        len(request.tenant) <= _LONGEST_ID and request.tenant.isprintable(),
        "tenant",
        f"must be at most {_LONGEST_ID} printable characters",
    )
    size = sum(len(name.encode()) + len(text.encode()) for name, text in request.metadata.items())
    _check(
        size <= _LARGEST_METADATA, "metadata", f"must be at most {_LARGEST_METADATA:,} bytes, not {size:,}"
    )
    callback = request.callback
    if callback is not None:
        _check(
            len(callback.url) + len(callback.secret_id) <= _LONGEST_URL,
            "callback.url",
            f"must be at most {_LONGEST_URL} characters",
        )
        _check(
            sum(map(len, callback.events)) <= _LONGEST_ID and len(callback.events) <= _MOST_EVENTS,
            "callback.events",
            "must be first_answer, done or both",
        )


def check_size(size: int) -> None:
    """Refuse a request whose record was compressed to fit: the batch that it leads to is not compressed.

    Args:
        size: bytes of the record's value.

    Raises:
        PayloadTooLargeError: names the size and the limit.
    """
    most = largest_record(REQUESTS)
    if size > most:
        raise PayloadTooLargeError(
            f"prompt is too large: the record has {size:,} bytes, at most {most:,} are taken", field="prompt"
        )


def check_content(request: InferenceRequest, limits: LimitSettings) -> None:
    """Refuse what can not be served: the request ends as ``failed`` with this error.

    Raises:
        InvalidRequestError: names the field.
    """
    sampling = request.sampling
    _check(
        bool(request.prompt.strip()) or any(turn.content.strip() for turn in request.messages),
        "prompt",
        "is empty; set prompt or messages",
    )
    _check(not (request.prompt and request.messages), "messages", "can not be used together with prompt")
    _check(
        all(turn.role in ("system", "user", "assistant") for turn in request.messages),
        "messages",
        "roles are system, user and assistant",
    )
    _check(
        sampling.n is None or 1 <= sampling.n <= limits.max_samples,
        "sampling.n",
        f"must be 1 to {limits.max_samples}, not {sampling.n}",
    )
    _check(
        sampling.temperature is None
        or (math.isfinite(sampling.temperature) and 0 <= sampling.temperature <= 2),
        "sampling.temperature",
        f"must be 0 to 2, not {sampling.temperature}",
    )
    _check(
        sampling.top_p is None or 0 < sampling.top_p <= 1,
        "sampling.top_p",
        f"must be above 0 and at most 1, not {sampling.top_p}",
    )
    _check(
        sampling.max_new_tokens is None or 1 <= sampling.max_new_tokens <= limits.max_new_tokens,
        "sampling.max_new_tokens",
        f"must be 1 to {limits.max_new_tokens}, not {sampling.max_new_tokens}",
    )
    _check(
        len(sampling.stop) <= _MOST_STOPS and all(0 < len(text) <= _LONGEST_STOP for text in sampling.stop),
        "sampling.stop",
        f"must be at most {_MOST_STOPS} texts of 1 to {_LONGEST_STOP} characters",
    )
    _check(
        sampling.top_k is None or sampling.top_k >= 0,
        "sampling.top_k",
        f"must not be negative, not {sampling.top_k}; 0 is off",
    )
    _check(
        sampling.min_p is None or 0 <= sampling.min_p <= 1,
        "sampling.min_p",
        f"must be 0 to 1, not {sampling.min_p}",
    )
    penalty = sampling.repetition_penalty
    _check(
        penalty is None or _LEAST_PENALTY <= penalty <= _MOST_PENALTY,
        "sampling.repetition_penalty",
        f"must be {_LEAST_PENALTY} to {_MOST_PENALTY}, not {penalty}; 1 is off",
    )
    _check(
        sampling.top_logprobs is None or 0 <= sampling.top_logprobs <= MOST_TOP_LOGPROBS,
        "sampling.top_logprobs",
        f"must be 0 to {MOST_TOP_LOGPROBS}, not {sampling.top_logprobs}; 0 is off",
    )
    _check(
        request.deadline_ms is None or 0 < request.deadline_ms < _LONGEST_DEADLINE_MS,
        "deadline_ms",
        f"must be above 0 and below 2^40, not {request.deadline_ms}",
    )
    _check(
        sampling.seed is None or 0 <= sampling.seed < _LARGEST_SEED,
        "sampling.seed",
        f"must be 0 to 2^62, not {sampling.seed}",
    )
    _check(
        request.kind is not Kind.VISION or bool(request.images),
        "images",
        "is empty; kind vision needs at least one",
    )
    if request.kind is Kind.CODE and request.tests is not None:
        from pipeline.fusion.code_tests import (
            parse_tests,  # late: it brings all of fusion, and few ask for code
        )

        parse_tests(request.tests)
    if request.session is not None:
        _check_session(request.session, request.run)


def _check_session(session: Session, run: int) -> None:
    for field, name in (("session.user", session.user), ("session.session", session.session)):
        _check(_is_name(name), field, f"must be 1 to {_LONGEST_ID} printable characters")
    # What the conversation held when it was first asked is not kept; with another history it is another question.
    _check(run == 0, "session", "can not be used with run above 0; leave it out and set messages")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_ID and text.isprintable()


def _check(good: bool, field: str, problem: str) -> None:
    if not good:
        raise InvalidRequestError(f"{field} {problem}", field=field)
