"""When a callback is tried again. Pure: the clock and the dice are passed in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime

from pipeline.delivery.outcome import Outcome, OutcomeCode
from pipeline.events import Delivery, DeliveryState, ErrorInfo

MAX_RETRY_AFTER_S = 86_400.0
_SECONDS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait after each failed attempt.

    Attributes:
        schedule: seconds after the first, second, … attempt; when it is used up the delivery has failed.
        spread: share of a wait that the jitter can add, so that an endpoint's callbacks come apart.
    """

    schedule: tuple[float, ...]
    spread: float


def parse_retry_after(value: str | None, now_ms: int) -> float | None:
    """Seconds to wait by a Retry-After header, at most a day; None when it says nothing usable.

    Both forms of RFC 9110, section 10.2.3: seconds, or an HTTP date. A date that has passed is 0.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        # int() refuses thousands of digits; so many mean the cap anyway.
        return MAX_RETRY_AFTER_S if len(text) > 9 else min(float(text), MAX_RETRY_AFTER_S)
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        wait = when.timestamp() - now_ms / 1000
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(wait, 0.0), MAX_RETRY_AFTER_S)


def next_attempt_at(
    attempt: int, outcome: Outcome, now_ms: int, policy: RetryPolicy, jitter: float
) -> int | None:
    """When to try again, in milliseconds; None when there is no further attempt.

    The endpoint's Retry-After can only make a wait longer: it says when not to come, not when to come.

    Args:
        attempt: attempts made since it was (last) sent, this one counted: at least 1.
        jitter: in [0, 1).
    """
    if outcome.final or attempt > len(policy.schedule):
        return None
    wait = policy.schedule[attempt - 1] * (1 + policy.spread * jitter)
    return now_ms + round(1000 * max(wait, outcome.retry_after_s or 0.0))


def conclude(
    delivery: Delivery, outcome: Outcome, now_ms: int, policy: RetryPolicy, jitter: float
) -> Delivery:
    """The delivery after one more attempt, ready to be recorded."""
    attempt = delivery.attempt + 1
    due = next_attempt_at(attempt - delivery.attempts_before, outcome, now_ms, policy, jitter)
    delivered = outcome.code is OutcomeCode.DELIVERED
    undelivered = DeliveryState.FAILED if due is None else DeliveryState.PENDING
    return replace(
        delivery,
        state=DeliveryState.DELIVERED if delivered else undelivered,
        attempt=attempt,
        updated_at=now_ms,
        next_due_at=due,
        status_code=outcome.status_code,
        error=None if delivered else ErrorInfo(outcome.code, outcome.message, retriable=due is not None),
    )


def refuse(delivery: Delivery, code: OutcomeCode, message: str, now_ms: int) -> Delivery:
    """The delivery given up without one more attempt, ready to be recorded."""
    return replace(
        delivery,
        state=DeliveryState.FAILED,
        updated_at=now_ms,
        next_due_at=None,
        error=ErrorInfo(code, message),
    )


def give_up_at(delivery: Delivery, policy: RetryPolicy) -> int:
    """When the last attempt of a pending delivery would be due at the latest, in milliseconds.

    That is if every attempt before it failed at once. It follows from the record alone: waiting for an
    endpoint does not make a callback's retries longer, and a restart does not begin them anew.
    """
    left = policy.schedule[delivery.attempt - delivery.attempts_before :]
    return (delivery.next_due_at or 0) + round(1000 * (1 + policy.spread) * sum(left))


def untried(delivery: Delivery) -> bool:
    """Whether it waits for its first attempt: since it was asked for, or since it was last sent again."""
    return delivery.state is DeliveryState.PENDING and delivery.attempt == delivery.attempts_before


def send_again(delivery: Delivery, now_ms: int) -> Delivery:
    """The same callback, due at once, with the whole schedule before it; its id and body stay."""
    return replace(
        delivery,
        state=DeliveryState.PENDING,
        attempts_before=delivery.attempt,
        updated_at=now_ms,
        next_due_at=now_ms,
        status_code=None,
        error=None,
    )
