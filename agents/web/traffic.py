"""How much passed the pipeline's steps in the last minutes, counted from what the view stores. For any thread.

Records are counted by the broker's time, so what is read late is counted where it belongs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pipeline.events import Delivery, DeliveryState, Event, InferenceRequest, Opened, Result, Sample

_KEPT = 600
"""Seconds."""
_STEP = 5
_RECENT = 10


class Passing(StrEnum):
    """What is counted."""

    ASKED = "asked"
    OPENED = "opened"
    SAMPLES = "samples"
    FINISHED = "finished"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class Series:
    """Equally long lists; ``times`` are the begins of steps, in s since 1970, rates are per second.

    Attributes:
        waiting: at each step's end; ``None`` where nobody looked.
    """

    times: list[int]
    asked: list[float]
    finished: list[float]
    waiting: list[int | None]


class Traffic:
    """Counts by the second, for ten minutes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {each: Counter[int]() for each in Passing}
        self._waiting: dict[int, int] = {}

    def add(self, event: Event, at_ms: int) -> None:
        passing = _passing(event)
        if passing is None:
            return
        with self._lock:
            self._counts[passing][at_ms // 1000] += 1

    def stands(self, waiting: int, now_ms: int) -> None:
        """So many tasks wait, from now until told again."""
        with self._lock:
            self._waiting[now_ms // 1000] = waiting
            self._forget(now_ms // 1000)

    def rate(self, passing: Passing, now_ms: int) -> float:
        """Per second, over the last ten."""
        second = now_ms // 1000
        with self._lock:
            counts = self._counts[passing]
            return sum(counts[each] for each in range(second - _RECENT, second)) / _RECENT

    def series(self, now_ms: int) -> Series:
        """The last ten minutes in steps of five seconds, the one that is not over left out."""
        end = now_ms // 1000 // _STEP * _STEP
        times = list(range(end - _KEPT, end, _STEP))
        with self._lock:
            asked, finished = (self._summed(each, times) for each in (Passing.ASKED, Passing.FINISHED))
            return Series(times, list(asked), list(finished), list(self._levels(times)))

    def _summed(self, passing: Passing, times: list[int]) -> Iterator[float]:
        counts = self._counts[passing]
        for time in times:
            yield sum(counts[time + each] for each in range(_STEP)) / _STEP

    def _levels(self, times: list[int]) -> Iterator[int | None]:
        known = sorted(self._waiting.items())
        level: int | None = None
        place = 0
        for time in times:
            while place < len(known) and known[place][0] < time + _STEP:
                level, place = known[place][1], place + 1
            yield level

    def _forget(self, now: int) -> None:
        """What is older than the picture; of the level one more is kept, for it holds until the next."""
        oldest = now - _KEPT - 2 * _STEP
        for counts in self._counts.values():
            for second in [second for second in counts if second < oldest]:
                del counts[second]
        past = sorted(second for second in self._waiting if second < oldest)
        for second in past[:-1]:
            del self._waiting[second]


def _passing(event: Event) -> Passing | None:
    match event:
        case InferenceRequest():
            return Passing.ASKED
        case Opened():
            return Passing.OPENED
        case Sample():
            return Passing.SAMPLES
        case Result() if event.status.terminal:
            return Passing.FINISHED
        case Delivery(state=DeliveryState.DELIVERED):
            return Passing.DELIVERED
        case _:
            return None
