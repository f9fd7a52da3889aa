"""Since when an endpoint has taken nothing, and whether it gets anything at all. Pure: time is passed in.

Every record of an attempt says since when its endpoint had been failing then; so the newest record of an
endpoint on ``deliveries`` is all that is needed to go on after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.delivery.outcome import Outcome, OutcomeCode
from pipeline.delivery.schedule import untried
from pipeline.events import Delivery

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class DisablePolicy:
    """When an endpoint gets nothing more.

    Attributes:
        after_ms: of nothing but failures; 0: never.
        quiet_ms: without any attempt, after which the count begins anew: what was not tried has not failed.
    """

    after_ms: int
    quiet_ms: int

    @classmethod
    def of(cls, after_s: float, longest_wait_s: float) -> DisablePolicy:
        """Args: seconds of failures; the longest wait between two attempts at one callback, seconds."""
        return cls(round(after_s * 1000), max(2 * _DAY_MS, round(longest_wait_s * 2000)))


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an endpoint.

    Attributes:
        as_of: when that was, ms.
        failing_since: ms; None: the last attempt arrived, or there was none.
    """

    as_of: int = 0
    failing_since: int | None = None
    disabled: bool = False


NOTHING_KNOWN = Standing()


def told_by(delivery: Delivery) -> Standing | None:
    """What a record says of its endpoint; None for one that waits for its first attempt, the first again included."""
    if untried(delivery):
        return None
    disabled = delivery.error is not None and delivery.error.code == OutcomeCode.ENDPOINT_DISABLED
    since = delivery.failing_since
    return Standing(delivery.updated_at, since, disabled and since is not None)


def after(standing: Standing, outcome: Outcome, now_ms: int, policy: DisablePolicy) -> Standing:
    """The standing after one more attempt."""
    if outcome.code is OutcomeCode.DELIVERED:
        return Standing(now_ms)
    if not outcome.sent:
        return standing
    since = standing.failing_since
    if since is None or (now_ms - standing.as_of > policy.quiet_ms and not standing.disabled):
        since = now_ms
    over = 0 < policy.after_ms <= now_ms - since
    return Standing(now_ms, since, standing.disabled or over)
