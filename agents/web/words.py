"""Numbers, times and states as the page writes them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.events import DeliveryState, Outcome, Status

_STATES = {
    Status.PENDING: ("waiting", "wait"),
    Status.RUNNING: ("running", "run"),
    Status.FIRST_ANSWER: ("first answer", "run"),
    Status.DONE: ("done", "good"),
    Status.PARTIAL_DONE: ("partly done", "part"),
    Status.FAILED: ("failed", "bad"),
    Status.CANCELLED: ("cancelled", "off"),
    Status.NEEDS_CLARIFICATION: ("asks back", "part"),
    DeliveryState.PENDING: ("pending", "wait"),
    DeliveryState.DELIVERED: ("delivered", "good"),
    DeliveryState.FAILED: ("failed", "bad"),
}
_OUTCOMES = {
    Outcome.UNKNOWN: "drawn",
    Outcome.WON: "won",
    Outcome.WON_TIE: "won a tie",
    Outcome.LOST: "outvoted",
    Outcome.ABSTAINED: "abstained",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "stopped",
    Outcome.REVIEW: "review",
}


def state_word(state: Status | DeliveryState) -> str:
    return _STATES[state][0]


def state_tone(state: Status | DeliveryState) -> str:
    """The class that colours it."""
    return _STATES[state][1]


def outcome_word(outcome: Outcome) -> str:
    return _OUTCOMES[outcome]


def duration(seconds: float) -> str:
    """Three figures at most: 4 ms, 0.42 s, 12.3 s, 4 min, 3 h, 2 d."""
    seconds = max(0.0, seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3_570:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.0f} h" if seconds < 84_600 else f"{seconds / 86_400:.0f} d"


def ago(ms: int, now: int) -> str:
    """How long before ``now``, both in ms; a time to come is told by "in"."""
    seconds = abs(now - ms) / 1000
    if seconds < 1:
        return "now"
    told = f"{seconds:.0f} s" if seconds < 59.5 else duration(max(seconds, 60))
    return f"{told} ago" if ms < now else f"in {told}"


def full_time(ms: int) -> str:
    """ISO 8601 in UTC to the millisecond."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rate(per_second: float) -> str:
    """Two figures: 0, 0.4, 7.3, 120."""
    return f"{per_second:.0f}" if per_second >= 10 or not per_second else f"{per_second:.1f}"


def amount(count: int, one: str, many: str = "") -> str:
    """1 sample, 3 samples, 1,024 tokens."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
