"""What a conversation hands on to the next turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import Conversation, Exchange, InferenceRequest, Message, RunningTurn
from pipeline.scheduling.history import LARGEST_SYSTEM, remembered, to_remember, tokens_of, with_history

EMPTY = Conversation("u", "s", at=0, through=0)
BRIEF = Message("system", "Be brief.")


def user(text: str) -> Message:
    return Message("user", text)


def turn(place: int, *messages: Message) -> RunningTurn:
    return RunningTurn(f"q-{place}", 0, place, 1_000, messages)


def request(*messages: Message, prompt: str = "") -> InferenceRequest:
    return InferenceRequest("q", prompt, messages)


def contents(kept: Conversation, place: int = 2**60) -> list[str]:
    asked = with_history(request(prompt="now"), kept, place)
    assert not asked.prompt
    return [f"{message.role}: {message.content}" for message in asked.messages]


def test_turns_come_before_the_question_in_the_order_in_which_they_were_asked() -> None:
    kept = remembered(EMPTY, turn(5, user("second")), "2", 100)
    kept = remembered(kept, turn(3, user("first")), "1", 100)
    assert contents(kept) == ["user: first", "assistant: 1", "user: second", "assistant: 2", "user: now"]
    assert contents(kept, place=4) == ["user: first", "assistant: 1", "user: now"]


def test_a_system_message_is_kept_once_and_first_and_a_newer_one_takes_its_place() -> None:
    kept = remembered(EMPTY, turn(1, BRIEF, user("a")), "1", 100)
    assert contents(kept)[:2] == ["system: Be brief.", "user: a"]
    own = with_history(request(Message("system", "Rhyme."), user("b")), kept, 9)
    assert [message.content for message in own.messages] == ["Rhyme.", "a", "1", "b"]
    kept = remembered(kept, turn(2, Message("system", "Rhyme."), user("b")), "2", 100)
    assert contents(kept)[0] == "system: Rhyme." and "system: Be brief." not in contents(kept)


@given(lengths=st.lists(st.integers(0, 120), min_size=1, max_size=12), tokens=st.integers(0, 150))
def test_the_oldest_turns_are_dropped_until_the_rest_is_within_the_limit(
    lengths: list[int], tokens: int
) -> None:
    kept = remembered(EMPTY, turn(0, BRIEF, user("x")), "0", tokens)
    said: list[Exchange] = list(kept.history)
    for place, length in enumerate(lengths, 1):
        kept = remembered(kept, turn(place, user("é" * length)), "a", tokens)
        said.append(Exchange(place, (user("é" * length), Message("assistant", "a"))))
        assert kept.system == (BRIEF,)
        assert kept.history == tuple(said[len(said) - len(kept.history) :])
        whole = tokens_of(kept.system) + sum(tokens_of(one.messages) for one in kept.history)
        assert whole <= tokens or not kept.history
        said = list(kept.history)


def test_a_turn_that_fits_stays_with_as_many_before_it_as_fit() -> None:
    each = tokens_of((user("four"), Message("assistant", "four")))
    kept = EMPTY
    for place in range(4):
        kept = remembered(kept, turn(place, user("four")), "four", 2 * each)
    assert [one.place for one in kept.history] == [2, 3]


def test_what_is_too_long_to_be_kept_leaves_nothing_before_it_either() -> None:
    words = to_remember(request(BRIEF, user("x" * 400)), 100)
    assert words == (BRIEF,)
    kept = remembered(EMPTY, turn(1, user("a")), "1", 100)
    assert contents(remembered(kept, turn(2, *words), "2", 100)) == ["system: Be brief.", "user: now"]


def test_a_very_long_system_message_is_its_requests_own() -> None:
    words = to_remember(request(Message("system", "x" * (LARGEST_SYSTEM + 1)), user("a")), 100)
    assert words == (user("a"),)
