"""Where a reset sets a group, and when it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.commands.offsets_view import offset_objects
from pipeline.errors import GroupInUseError, InvalidRequestError
from pipeline.kafka.in_flight import InFlight, Position
from pipeline.offsets.reset import EFFECTS, REFUSED, Edge, Target, Time, check_idle, chosen, moves
from pipeline.offsets.standing import Committed, Group, Member
from pipeline.topics import LANES, READ_BY

LANE = Committed((LANES[3], 0), Position(40, "1;0:3,5:1"), first=10, end=50)
OTHER = Committed((LANES[3], 1), None, first=0, end=7)
GROUP = Group("worker", "app-worker", (), (LANE, OTHER, replace(LANE, place=(LANES[4], 0))))


@pytest.mark.parametrize(
    ("target", "to", "by"),
    [
        (Edge.EARLIEST, 10, -30),
        (Edge.LATEST, 50, 10),
        (Time(5), 12, -28),
        (45, 45, 5),
        (10, 10, -30),
        (50, 50, 10),
    ],
)
def test_a_target_is_an_offset_of_the_partition(target: Target, to: int, by: int) -> None:
    (move,) = moves([LANE], target, {LANE.place: 12})
    assert (move.place, move.to, move.by, move.needless) == (LANE.place, to, by, False)


def test_each_partition_has_its_own_end() -> None:
    assert [move.to for move in moves(GROUP.offsets, Edge.LATEST, {})] == [50, 7, 50]


@pytest.mark.parametrize("offset", [9, 51])
def test_an_offset_outside_of_its_partition_is_refused(offset: int) -> None:
    with pytest.raises(InvalidRequestError, match="10 to 50"):
        moves([LANE], offset, {})


def test_an_offset_for_several_partitions_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="--partition"):
        moves(GROUP.offsets, 5, {})


def test_standing_there_already_is_needless_only_with_nothing_to_forget() -> None:
    plain = replace(LANE, position=Position(40))
    assert [
        move.needless
        for each in (plain, LANE, OTHER)
        for move in moves([each], 40 if each.position else 0, {})
    ] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("topic", "partition", "count"), [(None, None, 3), (LANES[3], None, 2), (None, 0, 2), (LANES[3], 1, 1)]
)
def test_topic_and_partition_choose(topic: str | None, partition: int | None, count: int) -> None:
    assert len(chosen(GROUP, topic, partition)) == count


def test_a_partition_that_is_not_read_is_refused_with_what_is() -> None:
    with pytest.raises(InvalidRequestError, match=r"batches\.3, batches\.4"):
        chosen(GROUP, "results", None)


def test_a_group_with_members_is_refused_and_they_are_named() -> None:
    live = replace(GROUP, members=(Member("app-worker-0", "/10.0.0.1", 6),))
    with pytest.raises(GroupInUseError, match=r"app-worker-0 at /10\.0\.0\.1.*10 s"):
        check_idle(live, live.offsets, 10_000)
    check_idle(GROUP, GROUP.offsets, 10_000)


def test_an_open_transaction_is_refused_where_it_matters() -> None:
    unstable = replace(LANE, stable=False)
    with pytest.raises(GroupInUseError, match=r"batches\.3\[0\]"):
        check_idle(GROUP, [unstable, OTHER], 10_000)
    check_idle(replace(GROUP, offsets=(unstable, OTHER)), [OTHER], 10_000)


def test_of_every_agent_it_is_said_what_a_reset_does_or_why_there_is_none() -> None:
    assert EFFECTS.keys() | REFUSED.keys() == READ_BY.keys()
    assert not EFFECTS.keys() & REFUSED.keys()


@pytest.mark.parametrize(
    ("committed", "lag"),
    [
        (LANE, 10),
        (OTHER, 7),
        (replace(LANE, position=Position(3)), 40),
        (replace(LANE, position=Position(50)), 0),
    ],
)
def test_lag_is_what_is_left_to_read(committed: Committed, lag: int) -> None:
    assert committed.lag == lag


@pytest.mark.parametrize("metadata", ["", "0;1:1", "1;x:y", "1;1", "something"])
def test_metadata_that_is_not_ours_says_nothing(metadata: str) -> None:
    assert not replace(LANE, position=Position(40, metadata)).finished


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_what_a_worker_has_finished_is_shown_by_task(counts: list[int], data: st.DataObject) -> None:
    tracked = InFlight(Position(40))
    for offset, tasks in enumerate(counts, 40):
        tracked.add(offset, tasks)
    tasks = [(offset, task) for offset, count in enumerate(counts, 40) for task in range(count)]
    done = data.draw(st.sets(st.sampled_from(tasks)))
    for offset, task in done:
        tracked.finish(offset, task)
    position = tracked.position()
    (line,) = offset_objects(replace(GROUP, offsets=(replace(LANE, position=position),)))
    assert line["committed"] == position.offset
    assert {(int(offset), task) for offset, numbers in line["finished"].items() for task in numbers} == {
        (offset, task) for offset, task in done if offset >= position.offset
    }
