"""What a replay asks again of what stands on ``requests``, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from golden.golden_events import FOLDER
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadMagicError
from pipeline.events import Callback, InferenceRequest, Mode, Session
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source
from pipeline.replay.survey import Choice, Plan, Survey
from pipeline.replay.where import Where
from pipeline.settings import LimitSettings

LIMITS = LimitSettings()
HOUR = 3_600_000
LATER = 100 * HOUR
ALL = Choice(1, LATER)


def record(offset: int, at: int = 0, partition: int = 0) -> Source:
    return Source("requests", partition, offset, at or offset * 1_000, None, b"12345")


def survey(choice: Choice, records: Iterable[tuple[Source, InferenceRequest]]) -> Survey:
    made = Survey(choice, LIMITS, lambda source, request: len(request.prompt) < 100)
    for source, request in records:
        made.take(source, request)
    return made


def plan(choice: Choice, *requests: InferenceRequest, running: Iterable[str] = ()) -> Plan:
    """Requests in the order of the topic."""
    records = [(record(offset), request) for offset, request in enumerate(requests, 1)]
    return survey(choice, records).plan(frozenset(running))


def asked(made: Plan) -> list[str]:
    return [each.request_id for each in made.to_ask]


def test_each_id_is_asked_once_from_its_oldest_record() -> None:
    made = plan(replace(ALL, run=1), InferenceRequest("a"), InferenceRequest("b"), InferenceRequest("a"))
    assert asked(made) == ["a", "b"]
    assert [each.place for each in made.to_ask] == [(0, 1), (0, 2)]
    assert (made.done, made.refused, made.beyond) == (0, (), 0)


@pytest.mark.parametrize(
    ("since", "until", "ids"), [(1, 2_000, ["a"]), (2_000, 3_000, ["b"]), (4_000, 9_000, [])]
)
def test_the_range_takes_its_beginning_and_not_its_end(since: int, until: int, ids: list[str]) -> None:
    choice = Choice(since, until, run=1)
    assert asked(plan(choice, InferenceRequest("a"), InferenceRequest("b"), InferenceRequest("c"))) == ids


def test_what_was_asked_under_the_number_behind_the_range_is_not_asked_again() -> None:
    choice = Choice(1, 3_000, run=2)
    made = plan(choice, InferenceRequest("a"), InferenceRequest("b"), InferenceRequest("a", run=2))
    assert (asked(made), made.done, made.refused) == (["b"], 1, ())
    assert "run 2 was asked before" in made.items[0].reason


def test_a_number_below_one_that_was_asked_is_refused() -> None:
    made = plan(replace(ALL, run=2), InferenceRequest("a"), InferenceRequest("a", run=3))
    assert (asked(made), made.done) == ([], 0)
    assert "run 3" in made.refused[0].reason


def test_a_number_that_was_asked_is_done_though_a_higher_one_was_asked_since() -> None:
    made = plan(
        replace(ALL, run=2), InferenceRequest("a"), InferenceRequest("a", run=2), InferenceRequest("a", run=3)
    )
    assert (asked(made), made.done, made.refused) == ([], 1, ())


def test_the_free_number_is_above_all_that_were_asked_of_these() -> None:
    requests = [
        InferenceRequest("a"),
        InferenceRequest("b"),
        InferenceRequest("b", run=4),
        InferenceRequest("c", run=9),
    ]
    assert plan(ALL, *requests).run == 10
    assert plan(Choice(1, 3_000), *requests).run == 5
    assert plan(Choice(1, 2_000), *requests).run == 1
    assert asked(plan(Choice(1, 3_000), *requests)) == ["a", "b"]


def test_conditions_decide_which_record_of_an_id_is_asked_again() -> None:
    original = InferenceRequest("a", callback=Callback("https://example.org/"))
    first = plan(replace(ALL, run=2), original, InferenceRequest("a", run=1))
    assert [(each.run, each.callback) for each in first.to_ask] == [(0, True)]
    later = plan(replace(ALL, run=2, where=Where.of(["run=1"])), original, InferenceRequest("a", run=1))
    assert [(each.run, each.callback) for each in later.to_ask] == [(1, False)]


def test_the_oldest_are_taken_and_those_that_were_asked_before_count() -> None:
    requests = [
        InferenceRequest("a"),
        InferenceRequest("b"),
        InferenceRequest("c"),
        InferenceRequest("a", run=1),
    ]
    made = plan(replace(ALL, run=1, limit=2), *requests)
    assert (asked(made), made.done, made.beyond) == (["b"], 1, 1)


def test_the_oldest_is_by_time_over_all_partitions() -> None:
    records = [
        (record(7, at=5_000), InferenceRequest("late")),
        (record(9, at=4_000, partition=1), InferenceRequest("early")),
    ]
    assert asked(survey(replace(ALL, run=1), records).plan(frozenset())) == ["early", "late"]


def test_what_runs_and_what_does_not_fit_is_left_out_with_a_reason() -> None:
    made = plan(replace(ALL, run=1), InferenceRequest("a"), InferenceRequest("b", "x" * 100), running=["a"])
    assert asked(made) == []
    assert [item.reason for item in made.refused] == [
        "run 0 has no final result yet",
        "does not fit the topic any more",
    ]


def test_a_turn_of_a_conversation_is_left_out_with_a_reason() -> None:
    made = plan(replace(ALL, run=1), InferenceRequest("a", session=Session("u", "s")), InferenceRequest("b"))
    assert asked(made) == ["b"]
    assert [(item.candidate.request_id, "conversation" in item.reason) for item in made.refused] == [
        ("a", True)
    ]


def test_a_request_may_run_until_the_deadline_of_its_last_run() -> None:
    made = survey(
        replace(ALL, run=2),
        [
            (record(1, at=1_000), InferenceRequest("own")),
            (record(2, at=1_000), InferenceRequest("deep", mode=Mode.DEEP)),
            (record(3, at=1_000), InferenceRequest("told", created_at=11_000, deadline_ms=5_000)),
            (record(4, at=1_000), InferenceRequest("again")),
            (record(5, at=500_000), InferenceRequest("again", run=1)),
            (record(6, at=1_000), InferenceRequest("done")),
            (record(7, at=500_000), InferenceRequest("done", run=2)),
        ],
    )
    assert made.may_run(15_999) == {
        "own": (0, 1_000),
        "deep": (0, 1_000),
        "told": (0, 1_000),
        "again": (1, 1_000),
    }
    assert made.may_run(16_000).keys() == {"own", "deep", "again"}
    assert made.may_run(301_000).keys() == {"deep", "again"}
    assert made.may_run(799_999).keys() == {"again"}
    assert not made.may_run(800_000)


def test_records_that_no_batcher_takes_are_named_if_they_are_of_the_range() -> None:
    made = survey(Choice(2_000, 3_000, run=1), [])
    for offset in (1, 2, 3):
        made.refuse(record(offset), BadMagicError("m"))
    assert made.plan(frozenset()).unreadable == {"bad_magic": ("requests[0]@2",)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("InferenceRequest.v*.bin")), ids=lambda path: path.stem)
def test_every_version_of_a_request_is_asked_again(path) -> None:
    request = Codec().decode(path.read_bytes())
    assert isinstance(request, InferenceRequest)
    made = survey(ALL, [(record(1), replace(request, session=None))]).plan(frozenset())
    assert (asked(made), made.run) == ([request.request_id], request.run + 1)


RECORDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=20
)


@given(RECORDS, st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 30))
def test_killed_anywhere_and_repeated_it_asks_each_id_once(
    said: list[tuple[str, int, int]], since: int, until: int, run: int, killed_after: int
) -> None:
    """What is asked is appended as it is written; the range may be told anew, up to a later now."""
    topic = [
        (record(i, at=at), InferenceRequest(name, run=number)) for i, (name, number, at) in enumerate(said)
    ]
    choice = Choice(since, until, run=run)
    before = {(request.request_id, request.run) for _, request in topic}
    first = survey(choice, topic).plan(frozenset())
    for each in first.to_ask[:killed_after]:
        topic.append((record(len(topic), at=100), InferenceRequest(each.request_id, run=run)))
    for again in (choice, replace(choice, until=200), replace(choice, until=200)):
        for each in survey(again, topic).plan(frozenset()).to_ask:
            topic.append((record(len(topic), at=101), InferenceRequest(each.request_id, run=run)))
    written = [request for _, request in topic[len(said) :]]
    assert len({request.request_id for request in written}) == len(written)
    assert not before & {(request.request_id, request.run) for request in written}
    assert {each.request_id for each in first.to_ask} <= {request.request_id for request in written}
    highest = {name: max(number for other, number, _ in said if other == name) for name, _, _ in said}
    assert all(request.run > highest[request.request_id] for request in written)
