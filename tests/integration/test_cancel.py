"""Cancelling, through real agents and a real Kafka, while a sample takes minutes and others need its row."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.engine.base import TaskKey
from pipeline.engine.script import fraction
from pipeline.events import (
    Callback,
    Control,
    ControlAction,
    Delivery,
    DeliveryState,
    InferenceRequest,
    Mode,
    Opened,
    Progress,
    Sample,
    Status,
)
from pipeline.supervisor import Supervisor
from pipeline.telemetry import now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, DELIVERIES, PROGRESS, RESULTS, SAMPLES
from tests.e2e.commands import environment, tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

_LONGEST_MS = 600_000
_OTHERS = ("worker", "aggregator", "webhook")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Slow:
    """A pipeline whose samples take up to ten minutes, and the supervisor of its batcher."""

    pipeline: OwnPipeline
    batcher: Supervisor

    @property
    def env(self) -> dict[str, str]:
        return environment_of(self.pipeline.settings)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slow]:
    script = f'{{"min_ms": 1, "max_ms": {_LONGEST_MS}, "rows": 1}}'
    folder = tmp_path_factory.mktemp("slow")
    with (
        own_pipeline(folder, agents=_OTHERS, script=script) as pipeline,
        pipeline.agents(["batcher"]) as batcher,
    ):
        yield Slow(pipeline, batcher)


@pytest.fixture
def asker(slow: Slow) -> Iterator[Asker]:
    follow = (SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS, PROGRESS)
    with Asker(slow.pipeline.settings, follow) as asker:
        yield asker


def new_id(*, quick: bool) -> str:
    """An id whose sample 0 takes half a second at most, or whose first three take more than two minutes each."""
    for number in _numbers:
        shares = [fraction(0, "duration", TaskKey(f"cancel-{number}", 0, index)) for index in range(3)]
        if shares[0] * _LONGEST_MS < 500 if quick else min(shares) > 0.2:
            return f"cancel-{number}"
    raise AssertionError


def ask(asker: Asker, request_id: str, **fields: object) -> str:
    asker.put(InferenceRequest(request_id, "answers=7", **fields))  # pyright: ignore[reportArgumentType]
    return request_id


def order(asker: Asker, request_id: str, run: int = 0) -> None:
    word = Control(request_id, run, ControlAction.CANCEL, now_ms(), "no longer needed")
    asker.put_bytes(asker.codec.encode(word), 0, request_id.encode(), topic=CONTROL)


def opened(asker: Asker, request_id: str) -> None:
    asker.until(lambda: any(o.request_id == request_id for o in asker.of(Opened)), "the request to be opened")


def neighbour(asker: Asker) -> None:
    """A request that needs the one row, and ends behind whatever came before it."""
    quick = ask(asker, new_id(quick=True), mode=Mode.FAST)
    assert asker.finals([quick])[quick].answer == "7"


def ends(asker: Asker, request_id: str) -> list[Status]:
    return [r.status for r in asker.results() if r.request_id == request_id]


def test_what_runs_is_cancelled_once_called_back_once_and_leaves_its_row(slow: Slow, asker: Asker) -> None:
    receiver = slow.pipeline.receiver
    request_id = ask(asker, new_id(quick=False), callback=Callback(receiver.url, events=("done",)))
    waiting = ask(asker, new_id(quick=False), priority=5)
    opened(asker, request_id)
    opened(asker, waiting)
    order(asker, request_id)
    order(asker, request_id)
    order(asker, waiting)
    result = asker.finals([request_id, waiting])[request_id]
    assert (result.status, result.answer, result.why) == (
        Status.CANCELLED,
        None,
        "cancelled: no longer needed",
    )
    neighbour(asker)
    order(asker, request_id)
    neighbour(asker)
    assert ends(asker, request_id) == ends(asker, waiting) == [Status.CANCELLED]
    assert not {s.request_id for s in asker.of(Sample)} & {request_id, waiting}

    def delivered() -> bool:
        return any(
            (d.request_id, d.state) == (request_id, DeliveryState.DELIVERED) for d in asker.of(Delivery)
        )

    asker.until(delivered, "the callback")
    assert receiver.verified(request_id, "done") and receiver.counts()[1:] == (0, 0)
    states = [p.status for p in asker.of(Progress) if p.request_id == request_id]
    assert states[-1] is Status.CANCELLED and states.count(Status.CANCELLED) == 1
    assert asker.dead == []


def test_an_order_for_what_has_ended_changes_nothing(slow: Slow, asker: Asker) -> None:
    done = ask(asker, new_id(quick=True), mode=Mode.FAST)
    assert asker.finals([done])[done].status is Status.DONE
    command = tallystream("cancel", done, env=slow.env)
    assert (command.returncode, command.stdout.split()) == (0, ["done", done]), command.stderr
    order(asker, done, run=1)
    neighbour(asker)
    assert ends(asker, done) == [Status.DONE]


def test_the_command_line_cancels_several_and_says_how_they_ended(slow: Slow, asker: Asker) -> None:
    running = [ask(asker, new_id(quick=False)) for _ in range(2)]
    for each in running:
        opened(asker, each)
    command = tallystream(
        "cancel", *running, running[0], "--reason", "too dear", "--timeout", "100", env=slow.env
    )
    assert command.returncode == 0, command.stderr
    assert [line.split() for line in command.stdout.splitlines()] == [["cancelled", each] for each in running]
    assert {result.why for result in asker.finals(running).values()} == {"cancelled: too dear"}
    again = tallystream("cancel", *running, env=slow.env)
    assert (again.returncode, again.stdout) == (0, command.stdout), again.stderr
    neighbour(asker)
    assert [ends(asker, each) for each in running] == [[Status.CANCELLED]] * 2


def test_an_order_that_comes_before_its_request_ends_it_when_it_comes(slow: Slow, asker: Asker) -> None:
    early = new_id(quick=False)
    command = tallystream("cancel", early, "--timeout", "0", env=slow.env)
    assert command.returncode == 3
    assert early in command.stderr and "order to cancel it stands" in command.stderr

    def carried() -> bool:
        return any(
            t == SAMPLES and isinstance(e, Control) and e.request_id == early for t, _, e in asker.events
        )

    asker.until(carried, "the order on samples")
    ask(asker, early)
    assert asker.finals([early])[early].status is Status.CANCELLED
    neighbour(asker)
    assert ends(asker, early) == [Status.CANCELLED]


def test_an_order_outlives_a_batcher_that_is_killed_with_it_in_hand(slow: Slow, asker: Asker) -> None:
    request_id = ask(asker, new_id(quick=False))
    opened(asker, request_id)
    (pid,) = slow.batcher.pids.values()
    os.kill(pid, signal.SIGSTOP)
    order(asker, request_id)
    os.kill(pid, signal.SIGKILL)
    assert asker.finals([request_id])[request_id].status is Status.CANCELLED
    neighbour(asker)
    assert ends(asker, request_id) == [Status.CANCELLED]


def test_what_is_no_order_on_control_goes_to_dead_letters(asker: Asker) -> None:
    asker.put_bytes(b"{}{}{}", 0, topic=CONTROL)
    assert asker.dead_letter(b"{}{}{}")["topic"] == CONTROL
    nameless = asker.codec.encode(Control("", 0, ControlAction.CANCEL, 1))
    asker.put_bytes(nameless, 0, topic=CONTROL)
    assert asker.dead_letter(nameless)["code"] == "invalid_request"
    neighbour(asker)


@pytest.mark.parametrize(
    ("argv", "text"),
    [(("cancel",), "ID"), (("cancel", "a\nb"), "request_id"), (("cancel", "a", "--run", "-1"), "--run")],
)
def test_a_mistake_is_one_clear_error(slow: Slow, argv: tuple[str, ...], text: str) -> None:
    done = tallystream(*argv, env=slow.env)
    assert done.returncode == 2
    assert text in done.stderr and "Traceback" not in done.stderr


def test_no_broker_is_one_clear_error(tmp_path: Path) -> None:
    done = tallystream(
        "cancel", "a", env=environment(TALLYSTREAM_BOOTSTRAP="127.0.0.1:9", TALLYSTREAM_HOME=str(tmp_path))
    )
    assert done.returncode == 2
    assert "127.0.0.1:9" in done.stderr and "Traceback" not in done.stderr
