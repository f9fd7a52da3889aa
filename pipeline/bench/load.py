"""One load for every contender: requests at a rate, or as many as it takes, and how long each answer took."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from pipeline.errors import DependencyDownError
from pipeline.ids import new_request_id
from pipeline.telemetry import now_ms

_PATIENCE = 240.0
"""Seconds; only what never answers takes so long."""
_CHUNK = 50
_LOOK = 0.1


class Contender(Protocol):
    """Something that answers requests. ``send`` and ``answered`` are called on two different threads."""

    @property
    def name(self) -> str: ...

    def send(self, request_id: str) -> None:
        """Send one request, without waiting for anything."""
        ...

    def answered(self, timeout: float) -> Sequence[str]:
        """The requests whose answers came, waiting at most so many seconds for the first."""
        ...


@dataclass(frozen=True, slots=True)
class Answers:
    """What came in one stretch; ``at`` and ``latencies`` in seconds, in the order of arrival."""

    at: Sequence[float]
    latencies: Sequence[float]

    @property
    def milliseconds(self) -> list[float]:
        return [1000 * latency for latency in self.latencies]


@dataclass(slots=True)
class _Stretch:
    sent: dict[str, float] = field(default_factory=dict[str, float])
    at: list[float] = field(default_factory=list[float])
    latencies: list[float] = field(default_factory=list[float])


class Load:
    """Loads one contender; follows its answers on a thread of its own while the block runs."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._stretch = _Stretch()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name=f"follow {contender.name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def warm_up(self, seconds: float) -> None:
        """Wait for the first answer of a contender that starts; then some load, of which nothing is kept.

        Raises:
            DependencyDownError: no answer came.
        """
        self.lone(1)
        self.steady(50, seconds)

    def lone(self, count: int, pause: float = 0.0) -> Answers:
        """One request after another, each when the answer before has come."""
        stretch = self._begin()
        for ended in range(1, count + 1):
            self._send(stretch)
            self._until(stretch, ended)
            time.sleep(pause)
        return Answers(stretch.at, stretch.latencies)

    def steady(self, rate: float, seconds: float) -> Answers:
        """Requests at a rate a second, however slow the answers are; waits for all of them.

        Raises:
            DependencyDownError: an answer is missing.
        """
        stretch = self._begin()
        count = max(1, round(rate * seconds))
        began = time.perf_counter()
        for index in range(count):
            time.sleep(max(0.0, began + index / rate - time.perf_counter()))
            self._send(stretch)
        self._until(stretch, count)
        return Answers(stretch.at, stretch.latencies)

    def saturate(self, seconds: float, in_flight: int) -> Answers:
        """Keep so many requests unanswered for a time that begins with the first answer; its last two thirds.

        Raises:
            DependencyDownError: no answer came.
        """
        stretch = self._begin()
        until = began = time.perf_counter() + _PATIENCE
        count = 0
        while (left := until - time.perf_counter()) > 0:
            if stretch.at and began != stretch.at[0]:
                began = stretch.at[0]
                until = began + seconds
            elif count - len(stretch.at) < in_flight:
                self._send(stretch)
                count += 1
            else:
                answers = count - in_flight + min(_CHUNK, in_flight)
                self._wait_for(stretch, answers if stretch.at else 1, left)
                self._raise()
        if not stretch.at:
            raise DependencyDownError(f"{self._contender.name}: no answer has come in {_PATIENCE:.0f} s")
        pairs = zip(list(stretch.at), stretch.latencies, strict=False)
        kept = [(at, took) for at, took in pairs if began + seconds / 3 <= at <= until]
        return Answers([at for at, _ in kept], [took for _, took in kept])

    def waiting(self, count: int) -> None:
        """Send so many, at once, to a contender that may not run yet."""
        stretch = self._begin()
        for _ in range(count):
            self._send(stretch)

    def drain(self, count: int, seconds: float) -> Answers:
        """Follow what ``waiting`` sent, until it is answered or so many seconds after the first answer."""
        stretch = self._stretch
        self._until(stretch, 1)
        self._wait_for(stretch, count, seconds)
        self._raise()
        at, latencies = list(stretch.at), list(stretch.latencies)
        return Answers(at, latencies[: len(at)])

    def _begin(self) -> _Stretch:
        self._stretch = _Stretch()
        return self._stretch

    def _send(self, stretch: _Stretch) -> None:
        request_id = new_request_id(now_ms())
        stretch.sent[request_id] = time.perf_counter()
        self._contender.send(request_id)

    def _until(self, stretch: _Stretch, count: int) -> None:
        self._wait_for(stretch, count, _PATIENCE)
        self._raise()
        if (found := len(stretch.at)) < count:
            raise DependencyDownError(
                f"{self._contender.name}: {count - found} of {count} answers have not come in {_PATIENCE:.0f} s"
            )

    def _wait_for(self, stretch: _Stretch, answers: int, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(stretch.at) >= answers or self._error is not None, seconds)

    def _raise(self) -> None:
        if self._error:
            raise self._error

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                self._note(self._contender.answered(_LOOK))
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _note(self, answered: Sequence[str]) -> None:
        now, stretch = time.perf_counter(), self._stretch
        with self._changed:
            for request_id in answered:
                if (sent := stretch.sent.pop(request_id, None)) is not None:
                    stretch.latencies.append(now - sent)
                    stretch.at.append(now)
            if answered:
                self._changed.notify_all()


def rate_of(answers: Answers) -> float:
    """Answers a second, from the first to the last of them; 0 of fewer than two."""
    if len(answers.at) < 2 or answers.at[-1] <= answers.at[0]:
        return 0.0
    return (len(answers.at) - 1) / (answers.at[-1] - answers.at[0])
