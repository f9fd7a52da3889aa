from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pipeline.errors import BrokerDownError
from pipeline.health import Stall
from pipeline.kafka.records import Place
from pipeline.kafka.watchdog import Watchdog, was_suspended
from pipeline.ledger import Ledger, Standing

HERE: Place = ("requests", 0)
PATIENCE = 60.0


class Probe:
    """Answers as it is told; ``looks`` counts the questions."""

    def __init__(self, answer: Standing | Exception) -> None:
        self.answer, self.looks, self.enough = answer, 0, threading.Event()

    def standings(self, places: Sequence[Place]) -> Mapping[Place, Standing]:
        self.looks += 1
        if self.looks >= 5:
            self.enough.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict.fromkeys(places, self.answer)

    def close(self) -> None:
        """Nothing is open."""


class Watched:
    def __init__(self) -> None:
        self.ledger, self.stalls, self.ended = Ledger(), list[Stall](), threading.Event()
        self.ledger.own({HERE: False})
        self.watchdog: Watchdog | None = None

    def start(self, probe: Any, limit: float) -> None:
        self.watchdog = Watchdog(self.ledger, probe, limit, self._end)
        self.watchdog.start()

    def _end(self, stall: Stall) -> None:
        self.stalls.append(stall)
        self.ended.set()


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    if watched.watchdog:
        watched.watchdog.stop()


def test_lag_that_nothing_touches_ends_the_process_once(watched: Watched) -> None:
    watched.start(Probe(Standing(3, "", 5)), 0.2)
    assert watched.ended.wait(PATIENCE)
    (stall,) = watched.stalls
    assert (stall.partition.position, stall.partition.lag) == (3, 2)


@pytest.mark.parametrize(
    "answer", [Standing(5, "", 5), BrokerDownError("away"), ValueError("a bug in the probe")]
)
def test_no_lag_or_no_answer_is_no_stall(watched: Watched, answer: Standing | Exception) -> None:
    probe = Probe(answer)
    watched.start(probe, 0.01)
    assert probe.enough.wait(PATIENCE)
    assert not watched.stalls
    assert watched.ledger.state.reachable == isinstance(answer, Standing)


def test_a_round_that_is_much_too_late_means_that_nobody_could_move() -> None:
    assert not was_suspended(5.1, 5.0)
    assert not was_suspended(10.0, 5.0)
    assert was_suspended(60.0, 5.0)
