from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import Delivery, DeliveryState, Progress, Result, Sample, Status
from pipeline.live.feed import WAIT_MS, End, Feed, Gap, Happened, Moved, Remembered, Tokens, Told
from pipeline.live.position import Position
from pipeline.live.record import Record
from pipeline.topics import DELIVERIES, PROGRESS, RESULTS, SAMPLES
from tests.unit.live.live_events import (
    CALLBACK,
    delivery,
    record,
    request,
    result,
    said,
    state,
    tokens,
    votes,
)

TEXTS = {0: "one \u2028two\n\n\n", 1: "\x0bthree", 2: "four five six"}


@dataclass(frozen=True, slots=True)
class World:
    """All records of a task, by topic in order, and one order in which they are read."""

    topics: dict[str, list[Record]]
    read: list[Record]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    asked = draw(st.booleans())
    pieces = [
        tokens(index, piece)
        for index, text in TEXTS.items()
        for piece in _pieces(text, draw(st.lists(st.integers(1, len(text)), max_size=4)))
    ]
    order = draw(st.permutations(range(len(pieces))))
    pieces = [pieces[place] for place in _stable(order, pieces)]
    progress = [*pieces, votes(1), state(Status.RUNNING), votes(2, 1), state(Status.DONE)]
    first = draw(st.booleans())
    results = [result(Status.FIRST_ANSWER)] if first else []
    results.append(result(revision=int(first), callback=CALLBACK if asked else None, samples=tuple(TEXTS)))
    outcomes = [delivery(0, revision=int(first)), delivery(1, revision=int(first))] if asked else []
    lots = {
        PROGRESS: progress,
        SAMPLES: [said(index, text) for index, text in TEXTS.items()],
        RESULTS: results,
        DELIVERIES: outcomes,
    }
    gaps = st.integers(1, 3)  # other tasks' records lie between
    topics: dict[str, list[Record]] = {}
    for topic, events in lots.items():
        offset, at, made = -1, draw(st.integers(0, 5)), list[Record]()
        for event in events:
            offset, at = offset + draw(gaps), at + draw(st.integers(-1, 3))
            made.append(record(event, offset, at))
        topics[topic] = made
    read: list[Record] = []
    waiting = {topic: list(records) for topic, records in topics.items() if records}
    while waiting:
        topic = draw(st.sampled_from(sorted(waiting)))
        read.append(waiting[topic].pop(0))
        if not waiting[topic]:
            del waiting[topic]
    return World(topics, read)


def _pieces(text: str, cuts: Sequence[int]) -> list[str]:
    ends = sorted({*cuts, len(text)})
    return [text[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _stable(order: Sequence[int], pieces: Sequence[Progress]) -> list[int]:
    """The order, with the pieces of one sample in theirs."""
    by_sample: dict[int | None, list[int]] = {}
    for place in range(len(pieces)):
        by_sample.setdefault(pieces[place].sample_index, []).append(place)
    return [by_sample[pieces[place].sample_index].pop(0) for place in order]


def durable(told: Iterable[Told]) -> list[Record]:
    return [t.record for t in told if isinstance(t, Happened) and t.record.topic != PROGRESS]


def connect(
    world: World, read: int, ahead: int, position: Position, kept: int, until: int | None
) -> list[Told]:
    """What one connection is told that is opened when ``read`` records were read, and holds ``until`` events.

    Args:
        ahead: how many records more the store has than the hub had when the connection was registered.
        kept: how many records of ``progress`` the hub remembers.
    """
    feed = Feed(0, position)
    stored = [r for r in world.read[: read + ahead] if r.topic != PROGRESS]
    seen = [r for r in world.read[:read] if r.topic == PROGRESS]
    gone = seen[:-kept] if kept else seen
    memory = Remembered(seen[len(gone) :], gone[-1].offset if gone else -1, len(gone))
    told = list(feed.join(Status.PENDING, stored, memory, now=5))
    for one in world.read[read:]:
        if feed.ended:
            break
        told += feed.take([one], 5)
    return told if until is None else told[:until]


def place_of(told: Sequence[Told], before: Position) -> Position:
    return next((t.position for t in reversed(told) if isinstance(t, Tokens | Happened)), before)


@given(worlds(), st.data())
def test_any_cuts_and_overlaps_tell_each_record_once_and_in_order(world: World, data: st.DataObject) -> None:
    """A reader that is cut off anywhere, twice, and comes back with the last id that it has."""
    told: list[Told] = []
    position, read = Position(), 0
    for cut in (True, True, False):
        read = data.draw(st.integers(read, len(world.read)))
        ahead = data.draw(st.integers(0, len(world.read) - read))
        kept = data.draw(st.integers(0, len(world.topics[PROGRESS])))
        until = data.draw(st.integers(0, 12)) if cut else None
        part = connect(world, read, ahead, position, kept, until)
        position = place_of(part, position)
        told += part
    for topic in (SAMPLES, RESULTS):
        assert [r for r in durable(told) if r.topic == topic] == world.topics[topic]
    # Once the result is told, nobody waits for more than the first attempt.
    outcomes = [r for r in durable(told) if r.topic == DELIVERIES]
    assert outcomes == world.topics[DELIVERIES]
    assert isinstance(told[-1], End)
    gap = any(isinstance(t, Gap) for t in told)
    for index, text in TEXTS.items():
        shown = "".join(t.text for t in told if isinstance(t, Tokens) and t.sample == index)
        assert gap or text.startswith(shown)


@given(worlds())
def test_one_connection_from_the_begin_sees_the_whole_text_of_every_sample(world: World) -> None:
    progress = [r for r in world.read if r.topic == PROGRESS]
    others = [r for r in world.read if r.topic != PROGRESS]
    feed = Feed(0)
    told = list(feed.join(Status.PENDING, (), Remembered(), now=0))
    told += feed.take([*progress, *others], 5)
    for index, text in TEXTS.items():
        assert "".join(t.text for t in told if isinstance(t, Tokens) and t.sample == index) == text
    moves = [t.status for t in told if isinstance(t, Moved)]
    assert moves[0] is Status.PENDING and moves[-1] is Status.DONE and len(moves) == len(set(moves))


def test_what_has_ended_long_ago_is_told_whole_and_ends() -> None:
    stored = [record(said(0, "7"), 3), record(said(1, "7"), 5), record(result(), 1, at=9)]
    told = list(Feed(0).join(Status.DONE, stored, Remembered((), 2**62, None), now=10**9))
    assert [type(t) for t in told] == [Moved, Happened, Happened, Happened, End]
    assert [str(t.position) for t in told if isinstance(t, Happened)] == ["s3", "s5", "s5.r1"]


def test_the_end_waits_for_a_callback_that_is_sent_again() -> None:
    """However long ago the task has ended."""
    asked = 10**6
    final, first = record(result(callback=CALLBACK), 0), record(delivery(0), 0)
    failed = record(replace(delivery(1), state=DeliveryState.FAILED), 1)
    again = replace(delivery(1), state=DeliveryState.PENDING, attempts_before=1, updated_at=asked)
    feed = Feed(0)
    told = list(feed.join(Status.DONE, [final, first, failed, record(again, 2)], Remembered(), now=asked + 5))
    assert End not in map(type, told) and feed.due == asked + WAIT_MS
    delivered = replace(delivery(2), attempts_before=1, updated_at=asked + 50)
    assert [type(t) for t in feed.take([record(delivered, 3)], asked + 60)] == [Happened, End]
    late = Feed(0)
    told = list(late.join(Status.DONE, [final, first, failed, record(again, 2)], Remembered(), asked + 10**5))
    assert type(told[-1]) is End


def test_the_end_waits_for_the_first_attempt_at_the_callback_and_not_for_longer() -> None:
    final = record(result(callback=CALLBACK), 0)
    feed = Feed(0)
    list(feed.join(Status.RUNNING, (), Remembered(), now=0))
    assert [type(t) for t in feed.take([final], 4)] == [Moved, Happened]
    assert feed.due == 4 + WAIT_MS
    assert [type(t) for t in feed.take([record(delivery(0), 0)], 5)] == [Happened]
    assert not list(feed.tick(feed.due - 1))
    assert [type(t) for t in feed.take([record(delivery(1), 1)], 6)] == [Happened, End]
    late = Feed(0)
    list(late.join(Status.RUNNING, (), Remembered(), now=0))
    list(late.take([final], 4))
    assert late.due is not None
    assert [type(t) for t in late.tick(late.due)] == [End] and late.ended


def test_an_attempt_that_was_read_before_the_result_counts() -> None:
    feed = Feed(0)
    list(feed.join(Status.RUNNING, (), Remembered(), now=0))
    told = list(feed.take([record(delivery(1), 1), record(result(callback=CALLBACK), 0)], 0))
    assert [type(t) for t in told] == [Happened, Moved, Happened, End]


def test_the_end_waits_for_samples_that_are_read_behind_the_result() -> None:
    feed = Feed(0)
    list(feed.join(Status.RUNNING, [record(said(0, "7"), 0)], Remembered(), now=0))
    assert [type(t) for t in feed.take([record(result(samples=(0, 1)), 0)], 0)] == [Moved, Happened]
    assert [type(t) for t in feed.take([record(said(1, "7"), 1)], 0)] == [Happened, End]


def test_tokens_on_each_others_heels_are_joined_under_the_last_ones_id() -> None:
    feed = Feed(0)
    list(feed.join(Status.RUNNING, (), Remembered(), now=0))
    lot = [
        record(tokens(index, text), offset)
        for offset, (index, text) in enumerate([(0, "a"), (0, "b"), (1, "c")])
    ]
    assert list(feed.take(lot, 0)) == [
        Tokens(0, "ab", Position(progress=1)),
        Tokens(1, "c", Position(progress=2)),
    ]


def test_a_sample_whose_text_was_told_gets_no_tokens_any_more() -> None:
    feed = Feed(0)
    list(feed.join(Status.RUNNING, [record(said(0, "abc"), 0)], Remembered(), now=0))
    assert not list(feed.take([record(tokens(0, "bc"), 7)], 0))


def test_a_newer_run_takes_over_and_an_older_one_is_not_told() -> None:
    feed = Feed(1)
    list(feed.join(Status.RUNNING, [record(result(run=0), 0)], Remembered(), now=0))
    assert not list(feed.take([record(tokens(0, "old", run=0), 1)], 0))
    told = list(feed.take([record(request(run=2), 4), record(tokens(0, "new", run=2), 5)], 0))
    assert told == [Moved(Status.PENDING), Moved(Status.RUNNING), Tokens(0, "new", Position(progress=5))]


def test_a_gap_is_said_where_tokens_may_be_missing_and_not_where_the_reader_has_them() -> None:
    memory = Remembered([record(tokens(0, "c"), 9)], lost_to=7, lost=3)
    told = list(Feed(0).join(Status.RUNNING, (), memory, now=0))
    assert told == [Moved(Status.RUNNING), Gap(3), Tokens(0, "c", Position(progress=9))]
    told = list(Feed(0, Position(progress=7)).join(Status.RUNNING, (), memory, now=0))
    assert told == [Moved(Status.RUNNING), Tokens(0, "c", Position(progress=9))]


def test_only_what_a_client_may_know_is_told() -> None:
    kinds = {type(t.record.event) for t in _everything() if isinstance(t, Happened)}
    assert kinds == {Sample, Result, Delivery}


def _everything() -> list[Told]:
    stored = [
        record(request(), 0),
        record(said(0, "7"), 1),
        record(result(callback=CALLBACK), 0),
        record(delivery(1), 0),
    ]
    return list(Feed(0).join(Status.DONE, stored, Remembered(), now=0))
