"""Ends a process whose input waits while nothing moves, so that its supervisor starts it afresh.

It has a thread and clients of its own: a blocked event loop or a blocked Kafka thread stops neither.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog

from pipeline.errors import DependencyDownError
from pipeline.health import Stall, stalled
from pipeline.health_server import health_served
from pipeline.kafka.offset_probe import OffsetProbe
from pipeline.ledger import Ledger
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

EXIT_STALLED = 75
"""EX_TEMPFAIL of sysexits.h: try again."""

_PATIENCE = 2.0
_SAMPLES_IN_LIMIT = 10
_MOST_INTERVAL = 5.0


class Watchdog:
    """Measures, and judges, until ``stop``.

    Args:
        limit: seconds without movement that are a stall; 0 measures only.
        end: called once with the first stall.
    """

    def __init__(
        self, ledger: Ledger, probe: OffsetProbe, limit: float, end: Callable[[Stall], None]
    ) -> None:
        self._ledger, self._probe, self._limit, self._end = ledger, probe, limit, end
        self._interval = min(_MOST_INTERVAL, limit / _SAMPLES_IN_LIMIT or _MOST_INTERVAL)
        self._away = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(self._interval):
            self._measure()
            now = time.monotonic()
            if was_suspended(now - began, self._interval):
                self._ledger.waited()
            began = now
            if stall := stalled(self._ledger.state, now, self._limit):
                self._end(stall)
                return
        self._probe.close()

    def _measure(self) -> None:
        places = self._ledger.owned
        if not places:
            return
        try:
            self._ledger.measured(self._probe.standings(places))
            self._away = False
        except Exception as error:  # not to know is no stall, and no reason to stop watching
            self._ledger.unreachable()
            if not self._away:
                expected = isinstance(error, DependencyDownError)
                log.warning("Kafka does not answer the watchdog", error=str(error), exc_info=not expected)
            self._away = True


def was_suspended(took: float, interval: float) -> bool:
    """Whether a round of the watchdog was so late that others had no chance to move either, or Kafka was slow."""
    return took > 3 * interval + 1.0


@contextmanager
def watched(settings: Settings, role: str) -> Generator[Ledger]:
    """Watch over this process and serve its health, while the block runs.

    A stall ends the process at once, with exit code 75: what is stuck would not let it end in order, and
    nothing is acknowledged before it is durable.

    Raises:
        ConfigError: the port for health is taken.
    """
    ledger = Ledger()
    limit = settings.watchdog.stall_after
    with health_served(settings, role, ledger, limit):
        watchdog = Watchdog(ledger, OffsetProbe(settings, role), limit, _exit)
        watchdog.start()
        try:
            yield ledger
        finally:
            watchdog.stop()


def _exit(stall: Stall) -> None:
    each = stall.partition
    log.critical(
        "stalled",
        topic=each.topic,
        partition=each.partition,
        position=each.position,
        lag=each.lag,
        held=each.held,
        still_s=round(stall.seconds, 1),
    )
    faulthandler.dump_traceback(all_threads=True)
    os._exit(EXIT_STALLED)
