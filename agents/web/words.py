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
}
_DELIVERY_STATES = {
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
    return _named(state)[0]


def state_tone(state: Status | DeliveryState) -> str:
    """The class that colours it."""
    return _named(state)[1]


def _named(state: Status | DeliveryState) -> tuple[str, str]:
    """By its type first: some states of both have one name, and would be one key."""
    return _DELIVERY_STATES[state] if isinstance(state, DeliveryState) else _STATES[state]


def outcome_word(outcome: Outcome) -> str:
    return _OUTCOMES[outcome]


def duration(seconds: float) -> str:
    """4 ms, 0.42 s, 12.3 s, 4 min 5 s, 12 min, 3 h, 2 d."""
    seconds = max(0.0, seconds)
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 599.5:
        minutes, left = divmod(round(seconds), 60)
        return f"{minutes} min {left} s" if left else f"{minutes} min"
    return _coarse(seconds)


def ago(ms: int, now: int) -> str:
    """How long before ``now``, both in ms; a time to come is told by "in"."""
    seconds = abs(now - ms) / 1000
    if seconds < 1:
        return "now"
    told = _coarse(seconds)
    return f"{told} ago" if ms < now else f"in {told}"


def _coarse(seconds: float) -> str:
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 3_570:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / 3_600:.0f} h" if seconds < 84_600 else f"{seconds / 86_400:.0f} d"


def full_time(ms: int) -> str:
    """ISO 8601 in UTC to the millisecond."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rate(per_second: float) -> str:
    """Two figures: 0, 0.4, 7.3, 120."""
    return f"{per_second:.0f}" if per_second >= 10 or not per_second else f"{per_second:.1f}"


def amount(count: int, one: str, many: str = "") -> str:
    """1 sample, 3 samples, 1,024 tokens."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
