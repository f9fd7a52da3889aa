from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import IllegalMoveError
from pipeline.events import Status
from pipeline.scheduling.states import ENDS, MOVES, latest, moved, revised

states = st.sampled_from(Status)


def test_every_state_has_its_moves_and_an_end_has_none() -> None:
    assert set(MOVES) == set(Status)
    assert {state for state, to in MOVES.items() if not to} == ENDS
    assert all(state not in to for state, to in MOVES.items())


@given(path=st.lists(states, max_size=6))
def test_a_request_ends_once_whatever_is_tried(path: list[Status]) -> None:
    state, seen = Status.PENDING, [Status.PENDING]
    for to in path:
        if to in MOVES[state]:
            state = moved(state, to)
            seen.append(state)
        else:
            with pytest.raises(IllegalMoveError, match=to.value):
                moved(state, to)
    assert len(seen) == len(set(seen)) <= 4
    assert [each for each in seen if each.terminal] == seen[-1:] * state.terminal


@given(
    told=st.permutations([Status.PENDING, Status.RUNNING, Status.FIRST_ANSWER, Status.DONE]), data=st.data()
)
def test_a_reader_knows_the_latest_state_in_whatever_order_it_is_told(
    told: list[Status], data: st.DataObject
) -> None:
    known = Status.PENDING
    for each in [*told, *data.draw(st.lists(st.sampled_from(told)))]:
        known = latest(known, each)
    assert known is Status.DONE
    assert latest(known, Status.CANCELLED) is Status.DONE


def test_only_votes_are_revised() -> None:
    assert revised(Status.DONE, Status.NEEDS_CLARIFICATION) is Status.NEEDS_CLARIFICATION
    assert revised(Status.DONE, Status.DONE) is Status.DONE
    for ended, to in (
        (Status.CANCELLED, Status.DONE),
        (Status.DONE, Status.CANCELLED),
        (Status.RUNNING, Status.DONE),
    ):
        with pytest.raises(IllegalMoveError):
            revised(ended, to)
