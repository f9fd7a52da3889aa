"""What a key may do, kept: calls in a second, and what a task may ask for."""

from __future__ import annotations

from pipeline.errors import ForbiddenError, TooManyRequestsError
from pipeline.events import InferenceRequest
from pipeline.gateway.keys import KeyLimits, Principal


class Buckets:
    """A token bucket a key, each with one second's calls in it at first, and one call at least."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, principal: Principal, now: float) -> None:
        """Count a call.

        Args:
            now: seconds of a clock that only goes on.

        Raises:
            TooManyRequestsError: the key has none left.
        """
        rate = principal.limits.rate
        if rate is None:
            return
        most = max(1.0, rate)
        left, at = self._left.get(principal.key_id, (most, now))
        left = min(most, left + rate * (now - at))
        if left < 1:
            self._left[principal.key_id] = left, now
            raise TooManyRequestsError(
                f"this key may make {rate:g} calls a second", retry_after=(1 - left) / rate
            )
        self._left[principal.key_id] = left - 1, now


def check_limits(request: InferenceRequest, limits: KeyLimits, samples: int) -> None:
    """Refuse what a key may not ask for.

    Args:
        samples: that the request will have.

    Raises:
        ForbiddenError: names the field.
    """
    if request.priority not in limits.priorities:
        allowed = ", ".join(map(str, limits.priorities))
        raise ForbiddenError(
            f"this key may ask for priority {allowed}, not {request.priority}", field="priority"
        )
    if limits.largest_n is not None and samples > limits.largest_n:
        raise ForbiddenError(
            f"this key may ask for {limits.largest_n} samples, not {samples}", field="sampling.n"
        )
