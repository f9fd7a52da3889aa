"""The view is the same however its records come, and wherever its process dies."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from store_events import (
    AT,
    HOUR,
    KEEPING,
    SECOND,
    content_of,
    delivery,
    letter,
    mark,
    opened,
    request,
    result,
    sample,
    stored,
    take,
    view_in,
)

from pipeline.events import Event, InferenceRequest, Result, Role, Status
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Place
from pipeline.store.counts import Counts
from pipeline.store.reading import Reading
from pipeline.store.rows import Stage, Stored
from pipeline.store.view import View
from pipeline.topics import DEAD_LETTERS, DELIVERIES, REQUESTS, RESULTS, SAMPLES


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    view = view_in(tmp_path)
    yield view
    view.close()


Log = dict[Place, list[Stored | Source]]
_IDS = ("a", "b")
_TOPICS = (REQUESTS, SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS)


def _event(topic: str, request_id: str, run: int, number: int) -> Event:
    if topic == REQUESTS:
        tenant, batch = f"t{number % 2}", {"batch": "b"} if number else {}
        return request(request_id, run=run, tenant=tenant, priority=number, metadata=batch)
    if topic == SAMPLES:
        role = Role.REVIEW if number == 3 else Role.ANSWER
        return sample(request_id, number, run=run, role=role) if number else opened(request_id, run=run)
    if topic == RESULTS:
        status = Status.FIRST_ANSWER if number == 0 else Status.DONE
        return result(request_id, status, run=run, revision=number)
    return delivery(f"d-{request_id}-{number}", request_id, number, run=run)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Records of two ids and two runs; on each partition offsets and times rise, with holes."""
    log: Log = {}
    draws = st.tuples(
        st.sampled_from(_TOPICS),
        st.sampled_from(_IDS),
        st.integers(0, 1),
        st.integers(0, 3),
        st.integers(1, 2),
        st.integers(0, 2),
    )
    for topic, request_id, run, number, step, wait in draw(st.lists(draws, max_size=40)):
        partition = _IDS.index(request_id) + (2 * number if topic == REQUESTS else 0)
        records = log.setdefault((topic, partition), [])
        offset = records[-1].offset + step if records else step
        at = (_at(records[-1]) if records else AT) + wait
        if topic != DEAD_LETTERS:
            records.append(Stored(topic, partition, offset, at, _event(topic, request_id, run, number)))
        elif number or not records:
            records.append(letter(offset, at, partition))
        else:
            first = records[0]
            assert isinstance(first, Source)
            records.append(mark(offset, first, at))
    return log


def _at(record: Stored | Source) -> int:
    return record.at if isinstance(record, Stored) else record.timestamp


def _ends(records: list[Stored | Source]) -> dict[Place, int]:
    return {(each.topic, each.partition): each.offset + 1 for each in records}


Step = tuple[int, int, int]
"""A partition, how many of its records are read again, and how many for the first time."""
_LOTS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=4),
        st.sampled_from(["well", "killed before", "killed after"]),
    ),
    max_size=8,
)


def _lot(log: Log, read: dict[Place, int], steps: list[Step]) -> list[Stored | Source]:
    lot: list[Stored | Source] = []
    for which, back, forth in steps:
        place = sorted(log)[which % len(log)]
        lot += log[place][max(0, read[place] - back) : read[place] + (forth or -1)]
        read[place] = min(read[place] + forth, len(log[place]))
    return lot


@hypothesis_settings(max_examples=60)
@given(log=logs(), lots=_LOTS)
def test_any_order_repetition_and_crash_gives_the_view_of_one_pass(
    log: Log, lots: list[tuple[list[Step], str]]
) -> None:
    with tempfile.TemporaryDirectory() as once_folder, tempfile.TemporaryDirectory() as folder:
        once, view, counts = view_in(Path(once_folder)), view_in(Path(folder)), Counts()
        whole = [record for records in log.values() for record in records]
        once.take(whole, _ends(whole))
        read = dict.fromkeys(log, 0)
        rest = [(which, 0, len(whole)) for which in range(len(log))]
        for steps, end in [*lots, (rest, "well")]:
            lot = _lot(log, read, steps) if log else []
            if end == "killed before":
                with pytest.raises(sqlite3.Error):
                    view.take(lot, {("nowhere", 0): object()})  # type: ignore[dict-item]
                view.close()
                view = view_in(Path(folder))
            for slot, count in view.take(lot, _ends(lot)).moves:
                counts.add(slot, count)
            if end == "killed after":
                view.close()
                view = view_in(Path(folder))
                counts = Counts(view.waiting())
        assert content_of(view) == content_of(once)
        assert counts.lanes(view.oldest()) == Counts(view.waiting()).lanes(view.oldest())
        view.close()
        once.close()


def test_what_was_taken_is_told_once_and_in_order(view: View) -> None:
    records = [stored(request("a"), 0), stored(opened("a"), 0), stored(sample("a", 0), 1)]
    assert take(view, *records) == tuple(records)
    again = [*records, stored(sample("a", 1), 2), stored(sample("a", 0), 3)]
    assert take(view, *again) == (again[3],)


def test_a_run_goes_through_its_stages(view: View) -> None:
    reading, counts = Reading(view.connections), Counts()
    steps: list[tuple[Event, Status, Stage]] = [
        (request("a", priority=2), Status.PENDING, Stage.WAITING),
        (opened("a"), Status.PENDING, Stage.OPENED),
        (sample("a", 0), Status.RUNNING, Stage.RUNNING),
        (result("a", Status.FIRST_ANSWER, revision=0), Status.FIRST_ANSWER, Stage.RUNNING),
        (sample("a", 1), Status.FIRST_ANSWER, Stage.RUNNING),
        (result("a", Status.PARTIAL_DONE, revision=1), Status.PARTIAL_DONE, Stage.OVER),
        (sample("a", 2), Status.PARTIAL_DONE, Stage.OVER),
    ]
    for offset, (event, status, stage) in enumerate(steps):
        record = stored(event, offset, AT + offset)
        for slot, count in view.take([record], {(record.topic, 0): offset + 1}).moves:
            counts.add(slot, count)
        task = reading.task("a")
        assert task is not None
        assert (task.status, task.updated_at) == (status, AT + offset)
        lane = counts.lanes(view.oldest())[2]
        assert (lane.waiting, lane.opened, lane.running) == (
            stage in (Stage.WAITING, Stage.OPENED),
            stage is Stage.OPENED,
            stage is Stage.RUNNING,
        )
        assert counts.of("t") == (stage is not Stage.OVER)
    assert task.result is not None
    assert (task.result.revision, task.samples, task.expected) == (1, 3, 3)
    assert (task.accepted_at, task.opened_at, task.first_sample_at, task.finished_at) == (
        AT,
        AT + 1,
        AT + 2,
        AT + 5,
    )


def test_a_vote_taken_again_changes_the_answer_and_not_the_end(view: View) -> None:
    take(view, stored(request("a"), 0), stored(result("a", Status.DONE, revision=1), 0, AT + 1))
    take(view, stored(result("a", Status.NEEDS_CLARIFICATION, revision=2), 1, AT + HOUR))
    take(view, stored(result("a", Status.FAILED, revision=0), 2, AT + HOUR))
    task = Reading(view.connections).task("a")
    assert task is not None
    assert task.result is not None
    assert (task.status, task.finished_at) == (Status.NEEDS_CLARIFICATION, AT + 1)
    assert task.result.revision == 2


def test_a_judgement_of_samples_is_none_of_those_expected(view: View) -> None:
    take(
        view, stored(request("a"), 0), stored(sample("a", 0), 0), stored(sample("a", 3, role=Role.REVIEW), 1)
    )
    task = Reading(view.connections).task("a")
    assert task is not None
    assert task.samples == 1


def test_a_newer_run_is_the_task_and_the_older_one_stays_readable(view: View) -> None:
    reading = Reading(view.connections)
    take(view, stored(request("a"), 0), stored(sample("a", 0), 0), stored(result("a"), 0))
    take(view, stored(sample("a", 0, run=1), 1))
    task = reading.task("a")
    assert task is not None
    assert task.request.run == 0  # nobody has read the question of run 1 yet
    take(view, stored(request("a", run=1), 1))
    task = reading.task("a")
    assert task is not None
    assert (task.request.run, task.status, task.result) == (1, Status.RUNNING, None)
    assert [each.run for each in reading.samples("a", 0)] == [0]


def test_an_id_asked_twice_is_its_first_record(view: View) -> None:
    take(view, stored(request("a", priority=4, prompt="second"), 7, AT + 2, partition=4))
    take(view, stored(request("a", priority=1, prompt="first"), 9, AT + 1, partition=1))
    take(view, stored(request("a", priority=2, prompt="third"), 1, AT + 3, partition=2))
    task = Reading(view.connections).task("a")
    assert task is not None
    assert (task.request.prompt, task.accepted_at) == ("first", AT + 1)
    assert view.waiting() == [((1, Stage.WAITING, "t"), 1)]


def test_what_nobody_asked_is_no_task(view: View) -> None:
    take(view, stored(opened("a"), 0), stored(sample("a", 0), 1), stored(result("a"), 0))
    assert Reading(view.connections).task("a") is None
    assert view.waiting() == []


def sweep(view: View, now: int) -> int:
    found = 0
    while step := view.sweep(now, most=3)[0]:
        found += step
    return found


def test_a_result_is_kept_then_gone_then_unknown(view: View) -> None:
    reading, end = Reading(view.connections), AT + 5 * SECOND
    asked = request("a", images=(b"x",), metadata={"k": "v"})
    take(view, stored(asked, 0), stored(sample("a", 0), 0), stored(result("a", metadata={}), 0, end))
    assert sweep(view, end + KEEPING.records) == 0
    assert reading.samples("a", 0)
    assert sweep(view, end + KEEPING.records + 1) == 1
    task = reading.task("a")
    assert task is not None
    assert (task.gone, task.status, task.result, reading.samples("a", 0)) == (True, Status.DONE, None, ())
    assert (task.request.prompt, task.request.images, task.request.metadata) == ("", (), {"k": "v"})
    assert not take(view, stored(sample("a", 1), 1))
    assert sweep(view, end + KEEPING.records + KEEPING.rows) == 0
    assert sweep(view, end + KEEPING.records + KEEPING.rows + 1) == 1
    assert reading.task("a") is None
    assert content_of(view)["runs"] == content_of(view)["records"] == []


def test_what_has_not_ended_in_time_is_not_waited_for(view: View) -> None:
    take(view, stored(request("a", deadline_ms=100 * SECOND), 0), stored(request("b"), 1))
    assert sweep(view, AT + 110 * SECOND) == 0
    found, moves = view.sweep(AT + 110 * SECOND + 1)
    assert (found, view.waiting()) == (1, [((3, Stage.WAITING, "t"), 1)])
    assert ((3, Stage.WAITING, "t"), -1) in moves
    take(view, stored(result("a"), 0, AT + 200 * SECOND))
    task = Reading(view.connections).task("a")
    assert task is not None
    assert task.status is Status.DONE


def test_a_result_that_kafka_dropped_before_it_was_read_is_gone_and_one_that_comes_late_is_there(
    view: View,
) -> None:
    late = AT + 330 * SECOND + KEEPING.records + 1
    take(view, stored(request("a"), 0))
    assert sweep(view, late) == 2
    task = Reading(view.connections).task("a")
    assert task is not None
    assert task.gone
    take(view, stored(result("a"), 0, late))
    task = Reading(view.connections).task("a")
    assert task is not None
    assert task.result is not None
    assert not task.gone


def test_callbacks_and_letters_are_kept_as_long_as_on_their_topics(view: View) -> None:
    reading, day = Reading(view.connections), 24 * HOUR
    first = letter(0)
    take(view, stored(delivery("d", "a", 1), 0), first, letter(1, AT + 1), mark(2, first, AT + 9))
    assert [(each.place, each.replayed_at) for each in reading.letters(5)] == [
        ((0, 1), None),
        ((0, 0), AT + 9),
    ]
    sweep(view, AT + 7 * day)
    assert len(reading.deliveries("a")) == 1
    sweep(view, AT + 7 * day + 1)
    assert reading.deliveries("a") == ()
    sweep(view, AT + 30 * day + 1)
    assert [each.place for each in reading.letters(5)] == [(0, 1)]


def test_headers_with_numbers_beyond_any_offset_are_passed_over(view: View) -> None:
    huge = str(10**30).encode()
    names = ("tallystream.error.offset", "tallystream.replayed.offset")
    letters = [
        replace(first, headers=tuple((name, huge if name == bad else value) for name, value in first.headers))
        for first, bad in zip((letter(0), mark(1, letter(0))), names, strict=True)
    ]
    take(view, *letters, letter(2))
    assert [each.place for each in Reading(view.connections).letters(5)] == [(0, 2)]


def test_any_number_of_a_deadline_can_be_kept(view: View) -> None:
    take(view, stored(request("a", deadline_ms=2**63 - 1), 0), stored(request("b", deadline_ms=-(2**63)), 1))
    take(view, stored(opened("a", created_at=-(2**63), deadline_at=2**63 - 1), 0))
    take(view, stored(opened("b", created_at=2**63 - 1, deadline_at=-(2**63)), 1))
    sweep(view, AT + HOUR)
    assert Reading(view.connections).task("a") is not None


def test_events_of_every_field_come_back_as_they_were(view: View) -> None:
    asked, answered = request("a", run=1), result("a", run=1)
    full = [
        asked,
        opened("a", run=1),
        sample("a", 4, run=1),
        answered,
        delivery("d", "a", 1, run=1, body=b""),
    ]
    take(view, *(stored(event, place) for place, event in enumerate(full)))
    reading = Reading(view.connections)
    assert {type(each.event): each.event for each in reading.history("a", 1)} == {
        type(event): event for event in full
    }
    task = reading.task("a")
    assert task is not None
    assert (task.request, task.result) == (asked, answered)
    assert isinstance(task.request, InferenceRequest)
    assert isinstance(task.result, Result)
