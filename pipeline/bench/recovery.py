"""From a kill to the next result of a request that was asked after it; for the webhook agent, the next delivery."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from pipeline.bench.effort import Effort
from pipeline.bench.figures import Figure, percentile
from pipeline.bench.parts import Say
from pipeline.bench.recovery_watch import RecoveryWatch
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.running_pipeline import Pipeline, Setup, running_pipeline
from pipeline.commands.demo_receiver import Receiver
from pipeline.errors import DependencyDownError
from pipeline.events import Callback
from pipeline.settings import Settings
from pipeline.stack import AGENTS
from pipeline.topics import DELIVERIES, RESULTS

_ROLES = (*AGENTS, "broker")
_GOAL = 10.0
_PATIENCE = 120.0
_RATE = 20.0
_CALM = 1.0


def recovery(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """One process a role, 20 requests/s with callbacks; each role is killed in turn, so often as ``effort`` says."""
    found: dict[str, list[float]] = {role: [] for role in _ROLES}
    with Receiver() as receiver:
        callback = Callback(receiver.url)
        setup = Setup(env=receiver.agent_environment(), callback=callback)
        with running_pipeline(settings, setup) as pipeline:
            say("recovery: starting")
            pipeline.load.warm_up(effort.warm)
            with RecoveryWatch(pipeline.settings, callback, _RATE) as watch:
                for kill in range(effort.kills):
                    for role in _ROLES:
                        found[role].append(_recover(pipeline, watch, role))
                    say(f"recovery: {kill + 1} of {effort.kills} kills of each role")
    for role, seconds in found.items():
        low, high = min(seconds), max(seconds)
        name = f"recovery: kill of the {role} → next result"
        yield Row(f"{name}, p50", Figure(percentile(seconds, 0.5), low, high), "s")
        worst = Figure(percentile(seconds, 0.99), low, high)
        yield Row(f"{name}, p99", worst, "s", Goal(Bound.AT_MOST, _GOAL))


def _recover(pipeline: Pipeline, watch: RecoveryWatch, role: str) -> float:
    """Seconds; waits until the pipeline answers before, so that no kill falls into the recovery from another."""
    topic = DELIVERIES if role == "webhook" else RESULTS
    for each in (RESULTS, DELIVERIES):
        watch.wait(each, time.monotonic(), _PATIENCE)
    time.sleep(_CALM)
    killed_at = time.monotonic()
    if role == "broker":
        pipeline.broker.kill()
        pipeline.broker.start()
    else:
        pid = pipeline.supervisor.pids[f"{role}-0"]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    seen = watch.wait(topic, killed_at, _PATIENCE)
    if seen is None:
        raise DependencyDownError(f"nothing has come {_PATIENCE:.0f} s after a kill of the {role}")
    return seen - killed_at
