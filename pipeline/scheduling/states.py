"""The states of a request and the moves between them. Pure.

pending ─▶ running ─▶ first_answer ─▶ done │ partial_done │ needs_clarification │ failed │ cancelled
   │          └────────────────────▶ every end
   └─▶ failed │ cancelled   (refused, out of time, or stopped before any sample came)

The aggregator moves a request; whoever reads of it elsewhere follows, by ``latest``: topics are not read in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pipeline.errors import IllegalMoveError
from pipeline.events import Status

ENDS = frozenset(status for status in Status if status.terminal)

MOVES: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.FAILED, Status.CANCELLED}),
    Status.RUNNING: ENDS | {Status.FIRST_ANSWER},
    Status.FIRST_ANSWER: ENDS,
} | {end: frozenset() for end in ENDS}

_REVISED = ENDS - {Status.CANCELLED}


def moved(state: Status, to: Status) -> Status:
    """The state after a move.

    Raises:
        IllegalMoveError: there is no such move.
    """
    if to not in MOVES[state]:
        raise IllegalMoveError(f"a request that is {state} can not become {to}")
    return to


def latest(known: Status, told: Status) -> Status:
    """What a reader knows after it was told a state, which may be older than the one it knows."""
    return told if told in _reachable(known) else known


def revised(ended: Status, to: Status) -> Status:
    """The state that a vote taken again gives a request that has ended: a correction, and no move.

    Raises:
        IllegalMoveError: it has not ended, was cancelled, or would not have ended by a vote.
    """
    if ended not in _REVISED or to not in _REVISED:
        raise IllegalMoveError(f"a result that says {ended} can not be revised to {to}")
    return to


@cache
def _reachable(state: Status) -> frozenset[Status]:
    return MOVES[state].union(*(_reachable(to) for to in MOVES[state]))
