"""Turns of one conversation, one step at a time; ``test_conversation_machine`` plays long ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talk_events import ended_word, waiting

from pipeline.events import InferenceRequest, Status
from pipeline.scheduling.conversation import Talk, asked, begin, ended, is_forgotten, new_talk, next_at
from pipeline.settings import ConversationSettings

LIMITS = ConversationSettings(ttl=1800, max_tokens=1000, max_wait=60, max_waiting=2)
MINUTE = 60_000


def ask(talk: Talk, place: int, name: str, at: int = 0, *, deadline_at: int = 300_000) -> Talk:
    talk, taken = asked(talk, waiting(place, name, at, deadline_at=deadline_at), LIMITS)
    assert taken
    return talk


def begun(talk: Talk, now: int) -> tuple[Talk, dict[str, list[str]]]:
    """What begins, by id, with the words of its prompt."""
    talk, found = begin(talk, now, LIMITS)
    return talk, {turn.request_id: said(asks) for turn, asks in found}


def said(asks: InferenceRequest) -> list[str]:
    return [message.content for message in asks.messages]


@pytest.fixture
def running() -> Talk:
    """``a`` runs and ``b`` waits."""
    talk, found = begun(ask(ask(new_talk("u", "s"), 0, "a"), 1, "b"), 0)
    assert found == {"a": ["question a"]}
    return talk


def test_a_turn_begins_with_the_answer_of_the_one_before_it(running: Talk) -> None:
    talk = ended(running, ended_word("a"), 2, LIMITS)
    talk, found = begun(talk, 1)
    assert found == {"b": ["question a", "answer a", "question b"]}
    assert begun(talk, 2) == (talk, {})


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED, Status.NEEDS_CLARIFICATION])
def test_an_end_without_an_answer_leaves_no_trace_and_lets_the_next_begin(
    running: Talk, status: Status
) -> None:
    _, found = begun(ended(running, ended_word("a", answer=None, status=status), 2, LIMITS), 1)
    assert found == {"b": ["question b"]}


def test_a_partial_answer_is_remembered(running: Talk) -> None:
    _, found = begun(ended(running, ended_word("a", status=Status.PARTIAL_DONE), 2, LIMITS), 1)
    assert found == {"b": ["question a", "answer a", "question b"]}


def test_a_waiting_turn_that_has_ended_never_begins(running: Talk) -> None:
    talk = ended(running, ended_word("b", answer=None, status=Status.CANCELLED), 2, LIMITS)
    assert not talk.waiting
    assert begun(ended(talk, ended_word("a"), 3, LIMITS), 1)[1] == {}


def test_at_its_bound_a_turn_begins_without_what_is_missing_and_the_late_answer_is_still_remembered(
    running: Talk,
) -> None:
    assert next_at(running, LIMITS) == MINUTE
    assert begun(running, MINUTE - 1)[1] == {}
    talk, found = begun(running, MINUTE)
    assert found == {"b": ["question b"]}
    talk = ended(talk, ended_word("b"), 2, LIMITS)
    talk = ended(talk, ended_word("a"), 3, LIMITS)
    _, found = begun(ask(talk, 4, "c"), MINUTE)
    assert found == {"c": ["question a", "answer a", "question b", "answer b", "question c"]}


def test_a_turn_keeps_half_of_its_time_for_its_answer(running: Talk) -> None:
    talk = ask(running, 2, "c", at=0, deadline_at=10_000)
    assert begun(talk, 4_999)[1] == {}
    assert begun(talk, 5_000)[1] == {"c": ["question c"]}
    late = ask(ended(running, ended_word("b", answer=None), 2, LIMITS), 3, "d", at=9, deadline_at=5)
    assert begun(late, 9)[1] == {"d": ["question d"]}


def test_words_that_come_again_change_nothing(running: Talk) -> None:
    assert asked(running, waiting(0, "a"), LIMITS) == (running, True)
    assert ended(running, ended_word("a"), 1, LIMITS) == running
    talk = ended(running, ended_word("a"), 2, LIMITS)
    assert ended(talk, ended_word("a"), 2, LIMITS) == talk
    assert asked(talk, waiting(1, "b"), LIMITS) == (talk, True)


def test_the_same_request_asked_at_another_place_is_the_same_turn(running: Talk) -> None:
    talk = ask(ask(running, 2, "a"), 3, "b")
    assert (talk.waiting, talk.kept.running, talk.kept.through) == (running.waiting, running.kept.running, 3)


def test_beyond_the_limit_a_turn_is_refused_until_one_has_ended(running: Talk) -> None:
    talk = ask(running, 2, "c")
    full, taken = asked(talk, waiting(3, "d"), LIMITS)
    assert not taken and full == replace(talk, kept=replace(talk.kept, through=3))
    assert asked(full, waiting(3, "d"), LIMITS) == (full, True), "it was refused already"
    talk = ended(full, ended_word("a"), 4, LIMITS)
    assert asked(talk, waiting(5, "e"), LIMITS)[1]
    at_bound, _ = begin(full, MINUTE, LIMITS)
    assert not asked(at_bound, waiting(4, "e"), LIMITS)[1], "what runs counts though nothing waits"


def test_an_end_that_never_comes_holds_nobody_up_for_ever(running: Talk) -> None:
    talk, found = begun(running, MINUTE)
    assert list(found) == ["b"]
    late = 300_000 + MINUTE
    assert [turn.request_id for turn in begun(talk, late - 1)[0].kept.running] == ["a", "b"]
    talk, _ = begun(talk, late)
    assert talk.kept.running == ()
    assert begun(ask(talk, 3, "c", at=late, deadline_at=2 * late), late)[1] == {"c": ["question c"]}


def test_a_session_is_forgotten_when_nobody_has_spoken_for_its_time(running: Talk) -> None:
    talk = ended(ended(running, ended_word("a", at=5), 2, LIMITS), ended_word("b", at=9), 3, LIMITS)
    until = 9 + 1_800_000
    assert next_at(talk, LIMITS) == until
    assert not is_forgotten(talk, until - 1, LIMITS) and is_forgotten(talk, until, LIMITS)
    kept = begun(ask(talk, 4, "c", at=until - 1, deadline_at=2 * until), until)[1]
    assert kept == {"c": ["question a", "answer a", "question c"]}
    gone = begun(ask(talk, 4, "c", at=until, deadline_at=2 * until), until)[1]
    assert gone == {"c": ["question c"]}


def test_what_runs_or_waits_is_not_forgotten(running: Talk) -> None:
    far = 10_000_000
    talk = ask(running, 2, "c", deadline_at=far)
    assert not is_forgotten(talk, far, LIMITS), "a turn waits"
    talk, _ = begun(ask(new_talk("u", "s"), 0, "a", deadline_at=far), 0)
    assert not is_forgotten(talk, far, LIMITS) and is_forgotten(talk, far + MINUTE, LIMITS)
