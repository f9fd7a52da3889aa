"""The load against a contender that answers when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, Queue

import pytest

from pipeline.bench.load import Answers, Load, rate_of
from pipeline.errors import DependencyDownError


class Echo:
    """Answers everything at once, or raises."""

    name = "echo"

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[str] = []
        self.most_waiting = 0
        self._error, self._queue = error, Queue[str]()

    def send(self, request_id: str) -> None:
        self.sent.append(request_id)
        self._queue.put(request_id)
        self.most_waiting = max(self.most_waiting, self._queue.qsize())

    def answered(self, timeout: float) -> Sequence[str]:
        if self._error:
            raise self._error
        try:
            return [self._queue.get(timeout=timeout)]
        except Empty:
            return ()


def test_every_request_at_a_rate_gets_one_latency() -> None:
    echo = Echo()
    with Load(echo) as load:
        answers = load.steady(200, 0.1)
    assert len(set(echo.sent)) == len(answers.latencies) == len(answers.at) == 20
    assert min(answers.milliseconds) >= 0


def test_saturation_keeps_to_what_may_be_in_flight() -> None:
    echo = Echo()
    with Load(echo) as load:
        answers = load.saturate(0.2, in_flight=7)
    assert 0 < len(answers.at) <= len(echo.sent)
    assert echo.most_waiting <= 7


def test_what_waited_is_followed_to_its_end() -> None:
    with Load(Echo()) as load:
        load.waiting(50)
        assert len(load.drain(50, 60.0).at) == 50


def test_a_contender_that_fails_ends_the_measurement() -> None:
    with Load(Echo(DependencyDownError("gone"))) as load, pytest.raises(DependencyDownError, match="gone"):
        load.lone(1)


def test_a_rate_is_answers_over_the_time_between_them() -> None:
    assert rate_of(Answers([10.0, 10.5, 11.0, 12.0], [])) == 1.5
    assert rate_of(Answers([1.0], [])) == rate_of(Answers([], [])) == 0.0
