"""The turns of one conversation, in order. Pure: functions of its state, a word of ``turns`` and the time.

A turn begins when every turn before it has ended, or at its own bound, and then with the answers that are there.
Every word has a place, its offset on ``turns``; one at or before ``through`` has come before and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.events import Conversation, InferenceRequest, RunningTurn, Status, Turn
from pipeline.scheduling.history import remembered, to_remember, with_history
from pipeline.settings import ConversationSettings

_LATEST_END_MS = 60_000
"""After its deadline, a turn's end is waited for so long: it was lost if it has not come."""
_ANSWERED = (Status.DONE, Status.PARTIAL_DONE)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that was asked and has not begun.

    Attributes:
        request: what ``turn.request`` holds.
    """

    place: int
    turn: Turn
    request: InferenceRequest

    def begins_by(self, limits: ConversationSettings) -> int:
        """When it waits no longer, in ms: half of its time stays for the answer."""
        half = (self.turn.deadline_at - self.turn.at) // 2
        return self.turn.at + max(0, min(round(limits.max_wait * 1000), half))


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation with its waiting turns, in order."""

    kept: Conversation
    waiting: tuple[Waiting, ...] = ()


def new_talk(user: str, session: str) -> Talk:
    return Talk(Conversation(user, session, at=0, through=-1))


def asked(talk: Talk, turn: Waiting, limits: ConversationSettings) -> tuple[Talk, bool]:
    """Let a turn wait; ``False`` when as many are unfinished as may be."""
    if turn.place <= talk.kept.through:
        return talk, True
    name, at = _name(turn.turn), turn.turn.at
    kept = replace(talk.kept, at=max(talk.kept.at, at), through=turn.place)
    if is_forgotten(talk, at, limits):
        kept = replace(kept, system=(), history=())
    if any(_name(live) == name for live in (*kept.running, *(one.turn for one in talk.waiting))):
        return replace(talk, kept=kept), True
    if len(talk.waiting) + len(_live(kept, at)) > limits.max_waiting:
        return replace(talk, kept=kept), False
    return Talk(kept, (*talk.waiting, turn)), True


def ended(talk: Talk, turn: Turn, place: int, limits: ConversationSettings) -> Talk:
    """Take the end of a turn: an answer is remembered, anything else leaves no trace."""
    if place <= talk.kept.through:
        return talk
    name = _name(turn)
    kept = replace(
        talk.kept,
        at=max(talk.kept.at, turn.at),
        through=place,
        running=tuple(one for one in talk.kept.running if _name(one) != name),
    )
    for one in talk.kept.running:
        if _name(one) == name and turn.status in _ANSWERED and turn.answer:
            kept = remembered(kept, one, turn.answer, limits.max_tokens)
    return Talk(kept, tuple(one for one in talk.waiting if _name(one.turn) != name))


def begin(
    talk: Talk, now: int, limits: ConversationSettings
) -> tuple[Talk, tuple[tuple[Turn, InferenceRequest], ...]]:
    """What begins now (ms), in order, each request with its history."""
    running = _live(talk.kept, now)
    waiting: list[Waiting] = []
    begun: list[tuple[Turn, InferenceRequest]] = []
    for one in talk.waiting:
        behind = any(other.place < one.place for other in running)
        if behind and now < one.begins_by(limits):
            waiting.append(one)
            continue
        begun.append((one.turn, with_history(one.request, talk.kept, one.place)))
        said = to_remember(one.request, limits.max_tokens)
        running.append(RunningTurn(*_name(one.turn), one.place, one.turn.deadline_at, said))
    running.sort(key=lambda turn: turn.place)
    return Talk(replace(talk.kept, running=tuple(running)), tuple(waiting)), tuple(begun)


def next_at(talk: Talk, limits: ConversationSettings) -> int:
    """When time asks for it next, in ms, if nothing is told before."""
    moments = [one.begins_by(limits) for one in talk.waiting]
    moments += [_lost_at(turn) for turn in talk.kept.running]
    return min(moments, default=_forgotten_at(talk.kept, limits))


def is_forgotten(talk: Talk, now: int, limits: ConversationSettings) -> bool:
    """Nobody has spoken for so long that nothing is kept any more."""
    live = talk.waiting or _live(talk.kept, now)
    return not live and now >= _forgotten_at(talk.kept, limits)


def _forgotten_at(kept: Conversation, limits: ConversationSettings) -> int:
    return kept.at + round(limits.ttl * 1000)


def _live(kept: Conversation, now: int) -> list[RunningTurn]:
    return [turn for turn in kept.running if now < _lost_at(turn)]


def _lost_at(turn: RunningTurn) -> int:
    return turn.deadline_at + _LATEST_END_MS


def _name(turn: Turn | RunningTurn) -> tuple[str, int]:
    return (turn.request_id, turn.run)
