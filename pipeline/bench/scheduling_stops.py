"""Stopping: how late a request ends when every worker sleeps, and what still comes after a cancel."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure
from pipeline.bench.kafka_answers import KafkaAnswers
from pipeline.bench.parts import Say
from pipeline.bench.question import question
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.bench.running_pipeline import Pipeline, Setup, running_pipeline
from pipeline.client import RequestProducer, send_control
from pipeline.engine.model import require_packages
from pipeline.errors import DependencyDownError
from pipeline.events import Control, ControlAction
from pipeline.ids import new_request_id
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import RESULTS

_DEADLINE = 5.0
_RATE = 4.0
_PATIENCE = 60.0


def stops(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Requests that nobody works on: from the order to cancel to the result, and how late their deadline ends them."""
    env = {"TALLYSTREAM_LIMITS__DEADLINE_MS": str(round(1000 * _DEADLINE))}
    slowest, latest = list[float](), list[float]()
    with running_pipeline(settings, Setup(env=env)) as pipeline:
        pipeline.load.warm_up(effort.warm)
        for _ in range(effort.repeats):
            with _asleep(pipeline):
                say("cancelling")
                slowest.append(max(_cancelled(pipeline.settings) for _ in range(effort.lone)))
                say("deadlines of requests whose worker sleeps")
                answers = pipeline.load.steady(_RATE, effort.steady)
            latest.append(max(answers.latencies) / _DEADLINE)
    yield Row("order to cancel → result, longest", figure(slowest), "s", Goal(Bound.AT_MOST, 2.0))
    name = "worker asleep: latest end / deadline"
    yield Row(name, figure(latest), "×", Goal(Bound.AT_MOST, 1.1))


def last_tokens(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Tokens that a running sample still says once it is cancelled: one for the step that is under way."""
    require_packages()
    from pipeline.bench.engine_cancel import tokens_after_cancel  # torch is not installed everywhere

    say("cancelling a running sample")
    said = [tokens_after_cancel(settings) for _ in range(effort.repeats * effort.lone)]
    yield Row("tokens after a cancel, most", figure([float(max(said))]), "tokens", Goal(Bound.AT_MOST, 1))


def _cancelled(settings: Settings) -> float:
    codec, request_id = make_codec(settings), new_request_id(now_ms())
    answers = KafkaAnswers(settings, RESULTS, settings.shards)
    try:
        producer = RequestProducer(settings, codec)
        producer.send(question(request_id))
        producer.flush()
        ordered_at = time.perf_counter()
        send_control(settings, codec, [Control(request_id, 0, ControlAction.CANCEL, now_ms(), "measured")])
        until = ordered_at + _PATIENCE
        while time.perf_counter() < until:
            if request_id in answers.read(0.01):
                return time.perf_counter() - ordered_at
    finally:
        answers.close()
    raise DependencyDownError(f"a cancelled request has no result after {_PATIENCE:.0f} s")


@contextmanager
def _asleep(pipeline: Pipeline) -> Generator[None]:
    """The worker does nothing, as one whose machine hangs."""
    pid = pipeline.supervisor.pids["worker-0"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
