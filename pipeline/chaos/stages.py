"""The stages of a chaos run in which requests flow: starting, calm, faults, finishing."""

from __future__ import annotations

import time

from pipeline.chaos.collect import snapshot
from pipeline.chaos.evidence import Snapshot
from pipeline.chaos.faults import Injector, until
from pipeline.chaos.guarantees import VICTIMS
from pipeline.chaos.load import Load
from pipeline.chaos.options import Options, Progress
from pipeline.chaos.plan import Actor, Fault, make_plan
from pipeline.chaos.report import Stretch
from pipeline.chaos.watch import Watch
from pipeline.errors import TallystreamError
from pipeline.settings import Settings

_START = 120.0
_AT_WORK = 10.0
"""Seconds' worth of requests that are under way when none waits."""
_LONGEST_FINISH = 3_600.0


class Stages:
    """The stages in which requests flow."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        load: Load,
        watch: Watch,
        injector: Injector,
        progress: Progress,
    ) -> None:
        self.injector, self.snapshots = injector, list[Snapshot]()
        self._settings, self._options, self._progress = settings, options, progress
        self._load, self._watch = load, watch

    def start_up(self) -> None:
        """Until results come of every partition, and what waited for the agents' start is through.

        Raises:
            TallystreamError: they do not come.
        """
        recovery = self._watch.recovery()
        if not until(lambda: recovery.seconds is not None, patience=_START):
            raise TallystreamError(f"the agents give no results within {_START:.0f} s; see their logs")
        until(lambda: self._watch.waiting < self._options.rate * _AT_WORK, patience=_START)

    def calm(self) -> Stretch:
        self._progress.stage = "calm"
        begin = time.monotonic()
        until(lambda: time.monotonic() - begin >= self._options.calm, patience=self._options.calm)
        self.snap()
        return self._stretch(begin)

    def faults(self) -> Stretch:
        """All that are planned, or until Ctrl-C: what was done by then is audited."""
        self._progress.stage = "chaos"
        begin = time.monotonic()
        try:
            self._make_faults()
        except KeyboardInterrupt:
            self._progress.stage = "interrupted: no more faults"
        self.injector.settle()
        return self._stretch(begin)

    def _make_faults(self) -> None:
        for fault in self._plan():
            if self.injector.given_up():
                break
            self.injector.wait(fault)
            self.snap()
            self._progress.faults = self.injector.done
            self.injector.make(fault)
            if not fault.actor.is_broker:
                self.snap()

    def finish(self) -> None:
        """Send nothing more and wait until everything has ended, or nothing moves any more."""
        self._progress.stage = "finishing"
        self._load.stop()
        self._wait_for_all()
        if self._watch.waiting and self.injector.mender.end_hanging():
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        patience = self._options.stuck_after
        until(lambda: not self._watch.waiting or self._watch.idle_for() > patience, _LONGEST_FINISH)

    def snap(self) -> None:
        """Note what is committed now, if Kafka answers."""
        if (
            taken := snapshot(self._settings.bootstrap, self._settings.app, self._settings.shards)
        ) is not None:
            self.snapshots.append(taken)

    def _plan(self) -> tuple[Fault, ...]:
        options = self._options
        return make_plan(
            seed=options.seed,
            kills=options.kills,
            actors=actors_of(options, own_broker=self.injector.has_broker),
            session_timeout=self._settings.session_timeout_ms / 1000,
            mean_pause=options.pause,
        )

    def _stretch(self, begin: float) -> Stretch:
        """What happened from ``begin`` until now."""
        now, finals = time.monotonic(), dict(self._watch.finals)
        asked = dict(self._watch.asked)
        latencies = [
            finals[key] - sent.sent_at
            for key, sent in asked.items()
            if key in finals and begin <= sent.sent_at <= now
        ]
        return Stretch(now - begin, sum(begin <= at <= now for at in finals.values()), latencies)


def actors_of(options: Options, *, own_broker: bool) -> list[Actor]:
    """Every process that faults can meet; of a broken run, those that are broken."""
    sizes = {"batcher": 2, "worker": options.workers, "aggregator": 2, "webhook": 2}
    if options.broken is not None:
        sizes = {role: sizes[role] for role in VICTIMS[options.broken]}
    elif own_broker:
        return [*_actors(sizes), *(Actor("broker", node) for node in range(1, options.brokers + 1))]
    return _actors(sizes)


def _actors(sizes: dict[str, int]) -> list[Actor]:
    return [Actor(role, number) for role, size in sizes.items() for number in range(size)]
