"""Turns of two sessions, asked and ended at any time, words that come again, and crashes between any two steps.

A machine of Hypothesis plays the log of one partition into the real owner, with a sink of this process. A crash at
any step loses what was in memory and brings unacknowledged words again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import IntEnum

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from talk_events import CODEC, NEVER_MS, asked_word, ended_word

import agents.conversation
from agents.conversation import Conversations
from pipeline.events import Batch, Control, Status, TaskGroup, Turn, TurnKind
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Output
from pipeline.settings import ConversationSettings, load_settings
from pipeline.topics import SESSIONS, TURNS

MOST_WAITING, BOUND_MS = 3, 60_000
SETTINGS = load_settings(
    bootstrap="nowhere:1",
    conversation=ConversationSettings(
        ttl=86_400, max_tokens=16_384, max_wait=BOUND_MS / 1000, max_waiting=MOST_WAITING
    ),
)


class Death(IntEnum):
    """The step after which the process dies."""

    NOT = 0
    BEFORE_WRITING = 1
    AFTER_WRITING = 2


class _Died(BaseException):
    pass


class Conversing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now = 1_000
        self.log: list[Turn] = []
        self.acknowledged = 0
        self.through = 0
        """Words that were handled, and what came of them written."""
        self.kept: dict[bytes, bytes] = {}
        self.begun: list[str] = []
        self.refused: list[str] = []
        self._clock = agents.conversation.now_ms
        agents.conversation.now_ms = lambda: self.now
        self.owner = self._new_owner()

    def _new_owner(self) -> Conversations:
        owner = Conversations(SETTINGS, CODEC, (TURNS, 0))
        owner.restore(dict(self.kept))
        return owner

    @rule(session=st.sampled_from(["s", "t"]))
    def ask(self, session: str) -> None:
        self.log.append(asked_word(f"q-{len(self.log)}", self.now, session=session, deadline_at=NEVER_MS))

    @precondition(lambda self: self._unended())
    @rule(choice=st.randoms(use_true_random=False), answered=st.booleans())
    def end(self, choice: st.DataObject, answered: bool) -> None:
        turn: Turn = choice.choice(self._unended())  # pyright: ignore
        self._end(turn, answered)

    @rule(count=st.integers(1, 6), death=st.sampled_from(Death))
    def handle(self, count: int, death: Death) -> None:
        if self._play(self.log[self.acknowledged : self.acknowledged + count], death):
            self.acknowledged = min(self.acknowledged + count, len(self.log))

    @rule(ms=st.integers(1, 2 * BOUND_MS), death=st.sampled_from(Death))
    def time_passes(self, ms: int, death: Death) -> None:
        self.now += ms
        self._play([], death)

    @rule()
    def another_owner_takes_over(self) -> None:
        self.owner.close()
        self.owner = self._new_owner()

    def teardown(self) -> None:
        try:
            for _ in range(len(self.log) + 2):  # each time at least one turn begins or has ended
                self.handle(1_000, Death.NOT)
                for turn in self._unended():
                    if turn.request_id in (*self.begun, *self.refused):
                        self._end(turn, answered=True)
            self._play([], Death.NOT)
            assert self.acknowledged == len(self.log) and not self._unended()
            dropped = {turn.request_id for turn in self._of(TurnKind.ENDED)} - set(self.begun)
            assert {t.request_id for t in self._of(TurnKind.ASKED)} == {*self.begun, *dropped, *self.refused}
        finally:
            agents.conversation.now_ms = self._clock
            self.owner.close()
            self.loop.close()

    def _play(self, words: list[Turn], death: Death) -> bool:
        first = self.acknowledged

        async def emit(outputs: Iterable[Output]) -> None:
            if death is Death.BEFORE_WRITING:
                raise _Died
            self.through = max(self.through, first + len(words))
            self._written(outputs)
            if death is Death.AFTER_WRITING:
                raise _Died

        sources = [
            Source(TURNS, 0, first + place, turn.at, b"k", CODEC.encode(turn))
            for place, turn in enumerate(words)
        ]
        try:
            self.loop.run_until_complete(self.owner.handle(sources, emit))
        except _Died:
            self.another_owner_takes_over()
            return False
        return True

    def _written(self, outputs: Iterable[Output]) -> None:
        for out in outputs:
            if out.topic == SESSIONS:
                assert out.key is not None
                if out.value is None:
                    self.kept.pop(out.key, None)
                else:
                    self.kept[out.key] = out.value
                continue
            event = CODEC.decode(out.value or b"")
            if isinstance(event, Control):
                self._refusal(event)
            elif isinstance(event, Batch):
                for group in event.groups:
                    self._begins(group)

    def _refusal(self, order: Control) -> None:
        assert order.request_id not in (*self.refused, *self.begun)
        before = self._before(order.request_id)
        assert len([t for t in before if t.request_id not in self.refused]) > MOST_WAITING
        self.refused.append(order.request_id)

    def _begins(self, group: TaskGroup) -> None:
        name = group.request_id
        assert name not in (*self.begun, *self.refused)
        (turn,) = (t for t in self._of(TurnKind.ASKED) if t.request_id == name)
        ends = {t.request_id: t for t in self.log[: self.through] if t.kind is TurnKind.ENDED}
        assert name not in ends or self.log.index(turn) >= self.acknowledged, "it had ended before"
        before = [t for t in self._before(name) if t.request_id not in self.refused]
        if self.now < turn.at + BOUND_MS:
            assert all(t.request_id in ends for t in before), "a turn before it has not ended"
        answers = [ends[t.request_id] for t in before if t.request_id in ends and t.request_id in self.begun]
        history = [
            said
            for end in answers
            if end.answer
            for said in (f"question {end.request_id}", f"answer {end.request_id}")
        ]
        assert [message.content for message in group.messages] == [*history, f"question {name}"]
        self.begun.append(name)

    def _before(self, name: str) -> list[Turn]:
        asked = self._of(TurnKind.ASKED)
        (turn,) = (t for t in asked if t.request_id == name)
        return [t for t in asked[: asked.index(turn)] if t.session == turn.session]

    def _end(self, turn: Turn, answered: bool) -> None:
        """As the aggregator does: what was not begun can only have been cancelled, or be too late."""
        answered = answered and turn.request_id in self.begun
        status, answer = (Status.DONE, "") if answered else (Status.CANCELLED, None)
        word = ended_word(turn.request_id, self.now, session=turn.session, answer=answer, status=status)
        self.log.append(word)

    def _of(self, kind: TurnKind) -> list[Turn]:
        return [turn for turn in self.log if turn.kind is kind]

    def _unended(self) -> list[Turn]:
        ended = {turn.request_id for turn in self._of(TurnKind.ENDED)}
        return [turn for turn in self._of(TurnKind.ASKED) if turn.request_id not in ended]


Conversing.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=40)
TestConversing = Conversing.TestCase
