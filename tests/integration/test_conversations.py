"""Conversations, through real agents and a real Kafka."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from pipeline.engine.base import TaskKey
from pipeline.engine.script import fraction
from pipeline.events import (
    Batch,
    Control,
    ControlAction,
    InferenceRequest,
    Mode,
    Sample,
    Session,
    Status,
    Turn,
    TurnKind,
)
from pipeline.supervisor import Supervisor
from pipeline.telemetry import now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, LANES, RESULTS, SAMPLES, SESSIONS, shard_of
from tests.e2e.commands import environment, tallystream
from tests.integration.asker import Asker
from tests.integration.own_pipeline import OwnPipeline, own_pipeline
from tests.integration.running import Running

pytestmark = pytest.mark.integration

_LONGEST_MS = 600_000
_OTHERS = ("worker", "aggregator", "webhook")
_RULES = {"TALLYSTREAM_CONVERSATION__MAX_WAIT": "20", "TALLYSTREAM_CONVERSATION__MAX_WAITING": "2"}
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Slow:
    """A pipeline whose samples take up to ten minutes, and the supervisor of its batcher."""

    pipeline: OwnPipeline
    batcher: Supervisor


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slow]:
    script = f'{{"min_ms": 1, "max_ms": {_LONGEST_MS}, "rows": 8}}'
    folder = tmp_path_factory.mktemp("slow")
    with (
        own_pipeline(folder, agents=_OTHERS, script=script, env=_RULES) as pipeline,
        pipeline.agents(["batcher"]) as batcher,
    ):
        yield Slow(pipeline, batcher)


@pytest.fixture
def talk(slow: Slow) -> Iterator[Talk]:
    with Asker(slow.pipeline.settings, (SAMPLES, RESULTS, DEAD_LETTERS, SESSIONS, *LANES)) as asker:
        yield Talk(asker, Session("ada", f"talk-{next(_numbers)}"))


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation, and who holds it."""

    asker: Asker
    session: Session

    def turn(self, question: str, *, quick: bool) -> str:
        """Ask a turn whose sample takes half a second at most, or two minutes at least; returns its id."""
        name = _id(quick=quick)
        self.asker.put(InferenceRequest(name, question, mode=Mode.FAST, session=self.session))
        return name

    def answers(self, name: str) -> str | None:
        return self.asker.finals([name])[name].answer

    def begins(self, name: str) -> int:
        """How often its tasks were put on a lane."""
        groups = [group for batch in self.asker.of(Batch) for group in batch.groups]
        return [group.request_id for group in groups].count(name)

    def waits(self, name: str) -> None:
        def waiting() -> bool:
            return any(
                turn.request_id == name and turn.kind is TurnKind.ASKED for turn in self.asker.of(Turn)
            )

        self.asker.until(waiting, f"{name} to wait")

    def runs(self, name: str) -> None:
        self.asker.until(lambda: self.begins(name) > 0, f"{name} to begin")

    def cancel(self, name: str) -> None:
        word = self.asker.codec.encode(Control(name, 0, ControlAction.CANCEL, now_ms()))
        self.asker.put_bytes(word, 0, name.encode(), topic=CONTROL)
        assert self.asker.finals([name])[name].status is Status.CANCELLED


def _id(*, quick: bool) -> str:
    for number in _numbers:
        share = fraction(0, "duration", TaskKey(f"turn-{number}", 0, 0))
        if share * _LONGEST_MS < 500 if quick else share > 0.2:
            return f"turn-{number}"
    raise AssertionError


def test_turns_that_are_asked_at_once_are_answered_in_order_each_with_those_before_it(asker: Asker) -> None:
    """Of one partition, where requests have an order; the conversations lie on both."""
    lasts: dict[str, str] = {}
    for number in (1, 2, 3, 4):
        session = Session("ada", f"at-once-{number}")
        names = (name for n in itertools.count() if shard_of(name := f"at-{number}-{n}", 2) == number % 2)
        for digit in (1, 2, 3):
            asker.put(InferenceRequest(next(names), f"answers={number}{digit}", session=session))
        last = InferenceRequest(next(names), "earlier=answers", mode=Mode.OPEN, session=session)
        asker.put(last)
        lasts[last.request_id] = "".join(f"{number}{digit}" for digit in (1, 2, 3))
    finals = asker.finals(lasts)
    assert {name: finals[name].answer for name in lasts} == lasts
    alone = asker.ask("earlier=answers")
    assert asker.finals([alone])[alone].answer == "0"
    assert asker.dead == []


def test_a_conversation_is_held_from_the_command_line(running: Running) -> None:
    env = environment(TALLYSTREAM_BOOTSTRAP=running.settings.bootstrap, TALLYSTREAM_SHARDS="2")

    def ask(question: str, *options: str) -> str:
        done = tallystream("ask", question, "--json", "--n", "1", *options, env=env)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout)["answer"]

    assert ask("answers=7", "--session", "ada/trip") == "7"
    assert ask("earlier=answers", "--session", "ada/trip") == "7"
    assert ask("earlier=answers", "--session", "bob/trip") == "0"


@pytest.mark.parametrize(
    "fields", [{"run": 1}, {"session": Session("ada", "a\nb")}, {"session": Session("", "a")}]
)
def test_what_can_be_no_turn_ends_as_failed(asker: Asker, fields: dict[str, object]) -> None:
    request = InferenceRequest(_id(quick=True), "answers=7", **({"session": Session("ada", "x")} | fields))  # pyright: ignore
    asker.put(request)
    result = next(r for r in asker.finals([request.request_id]).values())
    assert result.status is Status.FAILED and result.error is not None
    assert result.error.code == "invalid_request" and "session" in result.error.message


def test_a_waiting_turn_outlives_a_batcher_that_is_killed(slow: Slow, talk: Talk) -> None:
    assert talk.answers(talk.turn("answers=5", quick=True)) == "5"
    long = talk.turn("answers=6", quick=False)
    talk.runs(long)
    follow_up = talk.turn("earlier=answers", quick=True)
    talk.waits(follow_up)
    (pid,) = slow.batcher.pids.values()
    os.kill(pid, signal.SIGKILL)
    talk.cancel(long)
    assert talk.answers(follow_up) == "5"
    assert talk.answers(talk.turn("earlier=answers", quick=True)) == "55"
    assert talk.begins(long) == talk.begins(follow_up) == 1


def test_a_waiting_turn_that_is_cancelled_leaves_no_trace(talk: Talk) -> None:
    long = talk.turn("answers=6", quick=False)
    talk.runs(long)
    waiting = talk.turn("answers=7", quick=False)
    talk.waits(waiting)
    talk.cancel(waiting)
    talk.cancel(long)
    assert talk.answers(talk.turn("earlier=answers", quick=True)) == "0"
    assert not {sample.request_id for sample in talk.asker.of(Sample)} & {long, waiting}


def test_a_turn_waits_no_longer_than_its_bound(talk: Talk) -> None:
    assert talk.answers(talk.turn("answers=5", quick=True)) == "5"
    long = talk.turn("answers=6", quick=False)
    assert talk.answers(talk.turn("earlier=answers", quick=True)) == "5"
    talk.cancel(long)


def test_one_turn_too_many_is_cancelled_and_says_why(talk: Talk) -> None:
    held = [talk.turn("answers=6", quick=False) for _ in range(3)]
    for waiting in held[1:]:
        talk.waits(waiting)
    surplus = talk.turn("answers=7", quick=True)
    result = talk.asker.finals([surplus])[surplus]
    assert (result.status, result.why) == (
        Status.CANCELLED,
        "cancelled: 2 turns of its session wait already",
    )
    for name in held:
        talk.cancel(name)
    assert talk.begins(surplus) == 0
