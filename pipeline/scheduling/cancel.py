"""From a record on ``control`` to the order that stands on ``samples``. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipeline.errors import DecodeError, TallystreamError
from pipeline.events import Control, ControlAction, Event
from pipeline.scheduling.validate import check_run
from pipeline.topics import CONTROL

LONGEST_REASON = 500
"""Characters; it goes on into the result."""


def order_of(event: Event | TallystreamError, appended_at: int) -> Control | None:
    """The order to cancel that an event on ``control`` is; ``None`` for every other word.

    Args:
        appended_at: the broker's time of the record in ms, by which it is known again: the producer's clock
            may stand still, and the same id can be cancelled again after it was forgotten.

    Raises:
        DecodeError: it does not belong on this topic.
        InvalidRequestError: no request has such an id or run.
    """
    if isinstance(event, TallystreamError):
        raise event
    if not isinstance(event, Control):
        raise DecodeError(f"a {type(event).__name__} on {CONTROL}")
    if event.action is not ControlAction.CANCEL:
        return None
    check_run(event.request_id, event.run)
    return replace(event, at=appended_at, reason=event.reason[:LONGEST_REASON])
