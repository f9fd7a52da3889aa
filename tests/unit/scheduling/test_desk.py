from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.base import Completion, TaskKey
from pipeline.events import FinishReason, Kind, Message, Mode, SampleTask, TaskGroup
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.desk import TaskDesk
from pipeline.scheduling.waiting import Assigned

QUOTAS = (4, 3, 2, 1, 1, 1)


def assigned(
    name: str,
    *,
    lane: int = 3,
    offset: int = 0,
    task: int = 0,
    deadline: int = 10_000,
    deaths: int = 0,
    tenant: str = "t",
    tokens: int = 1024,
    queued_at: int = 0,
) -> Assigned:
    group = TaskGroup(
        name,
        0,
        tenant,
        lane,
        Mode.STANDARD,
        Kind.ANSWER,
        "direct",
        (Message("user", "?"),),
        0.5,
        1.0,
        tokens,
        0,
        deadline,
        (),
    )
    place = (f"batches.{lane}", 0)
    work = Work(*place, offset, 0, 0)
    return Assigned(group, SampleTask(task), Finished(place, offset, task), queued_at, lane, work, deaths)


def completion(key: TaskKey, reason: FinishReason = FinishReason.STOP) -> Completion:
    return Completion(key, "x", reason, 1, 1, -0.5, 1, 0.0, 0.0, 0.0)


def test_a_task_goes_from_waiting_to_published() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a"))
    assert desk.waiting(3) == 1
    assert list(desk.begin(5, now=0)) == [item]
    assert desk.busy and not desk.waiting(3)
    desk.end(done := completion(item.key))
    assert desk.publishable() == ([(item, done)], [item.finished])
    assert desk.published([item.finished]) == [item]
    assert desk.publishable() == ([], []) and not desk.busy


def test_no_more_begin_than_there_is_room_for() -> None:
    desk = TaskDesk(QUOTAS)
    for number in range(5):
        desk.take(assigned("a", offset=number, task=number))
    assert len(list(desk.begin(2, now=0))) == 2
    assert desk.waiting(3) == 3


def test_a_better_lane_goes_first_and_none_is_left_out() -> None:
    desk = TaskDesk(QUOTAS)
    for lane in range(6):
        for number in range(12):
            desk.take(assigned(f"r{lane}", lane=lane, offset=number, task=number))
    begun = list(desk.begin(12, now=0))
    assert Counter(item.lane for item in begun) == Counter(dict(enumerate(QUOTAS)))


def test_what_is_overdue_or_decided_is_finished_unrun() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(late := assigned("late", deadline=5))
    desk.take(settled := assigned("settled", offset=1))
    desk.take(open_ := assigned("open", offset=2))
    assert desk.decide(("settled", 0), 0) == []
    assert list(desk.begin(9, now=5)) == [open_]
    samples, finished = desk.publishable()
    assert not samples and set(finished) == {late.finished, settled.finished}
    desk.published(finished)
    assert desk.publishable() == ([], [])


def test_a_decided_request_names_what_runs_and_publishes_nothing_of_it() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a"))
    list(desk.begin(1, now=0))
    assert desk.decide(("a", 0), 0) == [item.key]
    desk.end(completion(item.key, FinishReason.CANCELLED))
    assert desk.publishable() == ([], [item.finished])


def test_who_asks_an_id_anew_long_after_its_end_waits_for_it() -> None:
    desk = TaskDesk(QUOTAS)
    desk.decide(("a", 0), 1_000)
    desk.take(soon := replace(assigned("a"), queued_at=61_000))
    assert list(desk.begin(9, now=0)) == []
    desk.published([soon.finished])
    desk.take(anew := replace(assigned("a", offset=1), queued_at=61_001))
    assert list(desk.begin(9, now=0)) == [anew]


def test_the_same_task_in_two_records_is_drawn_once() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(first := assigned("a", offset=1))
    desk.take(again := replace(first, finished=Finished(first.finished.place, 2, 0)))
    assert list(desk.begin(9, now=0)) == [first]
    assert desk.publishable() == ([], [again.finished])


def test_a_sample_in_the_making_is_not_begun_again_when_its_record_comes_back() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a"))
    list(desk.begin(1, now=0))
    desk.drop({item.finished.place})
    desk.end(done := completion(item.key))
    assert desk.publishable() == ([], [])
    desk.take(item)
    assert list(desk.begin(9, now=0)) == []
    assert desk.publishable() == ([(item, done)], [item.finished])


def test_what_went_to_somebody_else_stops_and_is_never_published() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(mine := assigned("mine", lane=1))
    desk.take(theirs := assigned("theirs", lane=2))
    list(desk.begin(2, now=0))
    desk.drop({mine.finished.place, theirs.finished.place})
    assert desk.keep([mine.finished.place]) == [theirs.key]
    desk.end(completion(theirs.key))
    desk.take(theirs)
    assert desk.publishable() == ([], [])
    assert list(desk.begin(9, now=0)) == [theirs]


def test_a_task_cancelled_for_a_move_is_drawn_again_when_it_comes_back() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a"))
    list(desk.begin(1, now=0))
    desk.end(completion(item.key, FinishReason.CANCELLED))
    assert desk.publishable() == ([], [])
    assert list(desk.begin(1, now=0)) == [item]


def test_suspects_run_alone_one_after_another_and_before_all_others() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(running := assigned("running", offset=1))
    assert list(desk.begin(9, now=0)) == [running]
    desk.take(other := assigned("other", offset=2, lane=0))
    first = [assigned("first", offset=3, task=n, lane=5, deaths=1) for n in range(3)]
    desk.take(second := assigned("second", offset=4, deaths=2))
    for item in first:
        desk.take(item)
    assert not list(desk.begin(9, now=0)), "something else runs"
    desk.end(completion(running.key))
    assert list(desk.begin(9, now=0)) == [second]
    assert not list(desk.begin(9, now=0)) and desk.in_hand() == {second.work} and desk.drawing == 1
    desk.end(completion(second.key))
    assert list(desk.begin(2, now=0)) == first[:2]
    desk.end(completion(first[0].key))
    assert list(desk.begin(9, now=0)) == first[2:], "what is blamed together may run together"
    assert desk.drawing == len(first) - 1, "without the one that has ended"
    for item in first[1:]:
        desk.end(completion(item.key))
    assert list(desk.begin(9, now=0)) == [other]
    assert desk.in_hand() == {other.work}


def test_a_suspect_is_cleared_when_its_last_task_is_published() -> None:
    desk = TaskDesk(QUOTAS)
    items = [assigned("a", task=task, deaths=1) for task in range(2)]
    for item in items:
        desk.take(item)
    for item, cleared in zip(items, (set(), {items[0].work}), strict=True):
        list(desk.begin(1, now=0))
        desk.end(completion(item.key))
        assert desk.cleared(desk.published([item.finished])) == cleared


def test_a_suspect_that_comes_back_while_it_runs_still_runs_alone() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(suspect := assigned("a", deaths=1))
    list(desk.begin(9, now=0))
    desk.drop({suspect.finished.place})
    desk.take(suspect)
    desk.take(assigned("b", offset=1))
    assert not list(desk.begin(9, now=0))


def test_what_is_refused_ends_unrun_and_is_published_once() -> None:
    desk = TaskDesk(QUOTAS)
    item = assigned("a", deaths=3)
    for _ in range(2):  # it comes back after a transaction that failed
        desk.refuse(item, completion(item.key, FinishReason.ERROR))
        assert not desk.in_hand() and not list(desk.begin(9, now=0))
        assert [a for a, _ in desk.publishable()[0]] == [item]
        desk.drop({item.finished.place})
    desk.refuse(item, done := completion(item.key, FinishReason.ERROR))
    assert desk.publishable() == ([(item, done)], [item.finished])
    assert desk.cleared(desk.published([item.finished])) == {item.work}
    assert desk.publishable() == ([], [])


@given(st.data())
def test_every_task_is_published_exactly_once_whatever_is_dropped_and_taken_again(
    data: st.DataObject,
) -> None:
    """The records of a partition come back after a drop, less those whose transaction committed."""
    desk = TaskDesk(QUOTAS)
    deaths = data.draw(st.lists(st.integers(0, 2), min_size=8, max_size=8))
    items = [assigned(f"r{n}", lane=n % 6, offset=n, deaths=deaths[n]) for n in range(8)]
    committed: list[Finished] = []
    running: list[Assigned] = []
    for item in items:
        desk.take(item)
    for _ in range(data.draw(st.integers(1, 25))):
        move = data.draw(st.sampled_from(["begin", "end", "commit", "rewind"]))
        if move == "begin":
            running += desk.begin(data.draw(st.integers(0, 3)), now=0)
            suspects = {item.work for item in running if item.suspect}
            assert not suspects or (desk.in_hand() == suspects and len(suspects) == 1)
        elif move == "end" and running:
            desk.end(completion(running.pop(data.draw(st.integers(0, len(running) - 1))).key))
        elif move == "commit":
            _, finished = desk.publishable()
            committed += finished
            desk.published(finished)
        elif move == "rewind":
            desk.drop({item.finished.place for item in items})
            for item in items:
                if item.finished not in committed:
                    desk.take(item)
    while len(committed) < len(items):
        running += desk.begin(9, now=0)
        for item in running:
            desk.end(completion(item.key))
        running.clear()
        _, finished = desk.publishable()
        assert finished
        committed += finished
        desk.published(finished)
    assert Counter(committed) == Counter(item.finished for item in items)


def test_a_sample_that_its_engine_failed_is_the_next_to_begin_until_its_attempts_are_used_up() -> None:
    desk = TaskDesk(QUOTAS)
    for name in ("a", "b"):
        desk.take(assigned(name))
    (first,) = desk.begin(1, now=0)
    for _ in range(2):
        assert desk.again(first.key, attempts=3)
        assert desk.publishable() == ([], []) and not desk.busy
        assert list(desk.begin(1, now=0)) == [first]
    assert not desk.again(first.key, attempts=3)
    desk.end(failed := completion(first.key, FinishReason.ERROR))
    assert desk.publishable() == ([(first, failed)], [first.finished])


def test_a_sample_that_nobody_holds_any_more_is_not_drawn_again() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a"))
    list(desk.begin(1, now=0))
    desk.drop({item.finished.place})
    assert not desk.again(item.key, attempts=3)
    desk.end(completion(item.key, FinishReason.ERROR))
    assert desk.publishable() == ([], [])


def test_a_failed_sample_whose_deadline_has_passed_meanwhile_is_through_unrun() -> None:
    desk = TaskDesk(QUOTAS)
    desk.take(item := assigned("a", deadline=5))
    list(desk.begin(1, now=0))
    assert desk.again(item.key, attempts=3)
    assert list(desk.begin(1, now=6)) == []
    assert desk.publishable() == ([], [item.finished])
