"""Lists: filters, pages, and what a cursor means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from store_events import AT, delivery, request, result, sample, stored, take, view_in

from pipeline.errors import InvalidRequestError
from pipeline.events import DeliveryState, Status
from pipeline.store.reading import Reading
from pipeline.store.tasks import TaskFilter
from pipeline.store.view import View

ENDS = (None, Status.DONE, Status.FAILED)
TASKS = [
    (f"q{number:02}", AT + number // 3, f"t{number % 2}", ENDS[number % 3], "b" if number % 5 == 0 else None)
    for number in range(30)
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    view = view_in(Path(tmp_path_factory.mktemp("view")))
    for offset, (name, at, tenant, status, batch) in enumerate(TASKS):
        metadata = {} if batch is None else {"batch": batch}
        take(view, stored(request(name, tenant=tenant, metadata=metadata), offset, at))
        if status is not None:
            take(view, stored(result(name, status), offset, AT + 100))
    yield view
    view.close()


@hypothesis_settings(max_examples=80)
@given(
    wanted=st.builds(
        TaskFilter,
        tenant=st.sampled_from([None, "t0", "t1", "t2"]),
        statuses=st.lists(st.sampled_from([Status.PENDING, Status.DONE, Status.FAILED]), unique=True).map(
            tuple
        ),
        since=st.none() | st.integers(AT - 1, AT + 11),
        until=st.none() | st.integers(AT - 1, AT + 11),
        batch=st.sampled_from([None, "b", "c"]),
    ),
    limit=st.integers(1, 12),
)
def test_pages_together_are_what_was_asked_for_newest_first(
    view: View, wanted: TaskFilter, limit: int
) -> None:
    reading, found, cursor = Reading(view.connections), [], None
    while True:
        page = reading.tasks(wanted, cursor, limit)
        assert len(page.tasks) <= limit
        found += [task.request.request_id for task in page.tasks]
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.tasks) == limit
    right = [
        (at, name)
        for name, at, tenant, status, batch in TASKS
        if wanted.tenant in (None, tenant)
        and (not wanted.statuses or (status or Status.PENDING) in wanted.statuses)
        and (wanted.since is None or at >= wanted.since)
        and (wanted.until is None or at < wanted.until)
        and wanted.batch in (None, batch)
    ]
    assert found == [name for _, name in sorted(right, reverse=True)]


def test_a_task_that_comes_while_pages_are_turned_shifts_none_of_them(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    for offset in range(4):
        take(view, stored(request(f"q{offset}"), offset, AT + offset))
    reading = Reading(view.connections)
    first = reading.tasks(TaskFilter(), None, 2)
    take(view, stored(request("later"), 4, AT + 10))
    second = reading.tasks(TaskFilter(), first.cursor, 2)
    assert [task.request.request_id for task in second.tasks] == ["q1", "q0"]
    view.close()


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "bnVsbA", "W10", "WyJhIiwgMV0", "A" * 5000, "W" + "5" * 400, "=="]
)
def test_a_cursor_of_somebody_else_names_its_field(view: View, cursor: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Reading(view.connections).tasks(TaskFilter(), cursor, 5)
    assert caught.value.field == "cursor"


@pytest.mark.parametrize(
    "wanted", [TaskFilter(), TaskFilter(tenant="t0"), TaskFilter(batch="b", tenant="t0")]
)
def test_a_list_walks_an_index_and_sorts_nothing(view: View, wanted: TaskFilter) -> None:
    from pipeline.store.reading import _branches

    for query, values in _branches(wanted, (AT, "q")):
        plan = view.connections.mine().execute(f"EXPLAIN QUERY PLAN {query}", (*values, 5)).fetchall()
        assert [step[3].split()[0] for step in plan] == ["SEARCH"], plan


def test_gone_tasks_and_older_runs_are_not_listed(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    take(view, stored(request("a"), 0), stored(request("a", run=1), 1, AT + 1), stored(request("b"), 2))
    take(view, stored(result("b"), 0, AT))
    assert view.sweep(AT + 24 * 3_600_000 + 1)[0]
    page = Reading(view.connections).tasks(TaskFilter(), None, 5)
    assert [(task.request.request_id, task.request.run) for task in page.tasks] == [("a", 1)]
    view.close()


def test_a_callback_is_its_newest_record_and_its_attempts_are_all(tmp_path: Path) -> None:
    view, reading = view_in(tmp_path), None
    states = (DeliveryState.PENDING, DeliveryState.PENDING, DeliveryState.DELIVERED)
    for offset, state in enumerate(states):
        take(view, stored(delivery("d", "a", offset, state=state), offset, AT + offset))
    take(view, stored(delivery("e", "b", 0, state=DeliveryState.FAILED), 3, AT + 1))
    reading = Reading(view.connections)
    assert [(each.state, each.body) for each in reading.deliveries("a")] == [(DeliveryState.DELIVERED, b"")]
    assert [each.attempt for each in reading.attempts("d")] == [0, 1, 2]
    assert [each.delivery_id for each in reading.recent_deliveries(5)] == ["d", "e"]
    view.close()


def test_samples_come_by_index(tmp_path: Path) -> None:
    view = view_in(tmp_path)
    take(view, *(stored(sample("a", index), offset) for offset, index in enumerate((2, 0, 1))))
    assert [each.sample_index for each in Reading(view.connections).samples("a", 0)] == [0, 1, 2]
    view.close()
