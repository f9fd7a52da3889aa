"""The aggregator's own logic, on a table and a sink of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from test_window_table import Log
from window_events import opened, sample

from agents.aggregator import Aggregator
from pipeline.errors import BrokerDownError
from pipeline.events import (
    Batch,
    Control,
    ControlAction,
    Event,
    Mode,
    Progress,
    Result,
    Role,
    Session,
    Status,
    Turn,
    TurnKind,
)
from pipeline.fusion import ReviewOptions, VoteOptions
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Output, result_identity
from pipeline.settings import load_settings
from pipeline.telemetry import now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, LANES, RESULTS, SAMPLES, TURNS
from pipeline.windows import WindowBook

CODEC = Codec()


class Told:
    """Where progress goes."""

    def __init__(self) -> None:
        self.states = list[Status]()

    def state(self, request_id: str, run: int, status: Status, at: int) -> None:
        self.states.append(status)

    def write(self, event: Progress) -> None: ...


class Sink:
    """Keeps what is emitted; fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.written = failures, list[Output]()

    async def __call__(self, outputs: Iterable[Output]) -> None:
        if self.failures:
            self.failures -= 1
            raise BrokerDownError("away")
        self.written += outputs

    def paths(self) -> list[str]:
        """Of the groups of all batches."""
        batches = [CODEC.decode(out.value) for out in self.written if out.topic in LANES]
        return [group.path for batch in batches if isinstance(batch, Batch) for group in batch.groups]

    def results(self) -> list[Event]:
        return [CODEC.decode(out.value) for out in self.written if out.topic == RESULTS]


@pytest.fixture
async def aggregator() -> AsyncIterator[Aggregator]:
    tell: Any = Told()
    changelog: Any = Log()
    worker = Aggregator(load_settings(bootstrap="nowhere:1"), CODEC, (SAMPLES, 0), changelog, tell)
    yield worker
    worker.close()


def record(event: Event | bytes, offset: int = 0) -> Source:
    value = event if isinstance(event, bytes) else CODEC.encode(event)
    return Source(SAMPLES, 0, offset, 1, b"q", value)


MARKER = record(opened(1))
SAMPLE = record(sample(0, "42"), 1)


async def test_a_marker_and_its_samples_become_a_result(aggregator: Aggregator) -> None:
    sink = Sink()
    await aggregator.handle([SAMPLE, MARKER, SAMPLE], sink)
    (result,) = sink.results()
    assert isinstance(result, Result) and (result.status, result.answer) == (Status.DONE, "42")
    await aggregator.handle([SAMPLE, MARKER], sink)
    assert len(sink.written) == 1


async def test_a_conversation_is_told_of_its_turns_end_with_the_final_result(aggregator: Aggregator) -> None:
    marker = replace(opened(3, Mode.DEEP), session=Session("u", "s"), deadline_at=2**42)
    sink = Sink()
    await aggregator.handle([record(marker), record(sample(0, "42", role=Role.FIRST))], sink)
    assert [out.topic for out in sink.written] == [RESULTS], "a first answer is no end"
    await aggregator.handle([record(sample(1, "42")), record(sample(2, "42"))], sink)
    ends = [out for out in sink.written if out.topic == TURNS]
    (end,) = (CODEC.decode(out.value or b"") for out in ends)
    assert isinstance(end, Turn) and (end.kind, end.status, end.answer) == (TurnKind.ENDED, Status.DONE, "42")
    assert (end.request_id, end.user, end.session) == ("q", "u", "s")


async def test_bytes_that_are_no_event_are_dead_letters(aggregator: Aggregator) -> None:
    sink = Sink()
    await aggregator.handle([record(b"{}{}{}"), Source(SAMPLES, 0, 1, 1, b"q", None)], sink)
    assert [(out.topic, out.value) for out in sink.written] == [(DEAD_LETTERS, b"{}{}{}")]


async def test_an_overdue_window_stops_what_still_runs(aggregator: Aggregator) -> None:
    sink = Sink()
    await aggregator.handle([record(opened(3))], sink)
    assert [out.topic for out in sink.written] == [RESULTS, CONTROL]


async def test_records_that_come_again_after_a_failed_transaction_give_their_result(
    aggregator: Aggregator,
) -> None:
    """As ``PartitionWorker.run`` does it: the same records once more, to the same aggregator."""
    sink = Sink(failures=1)
    with pytest.raises(BrokerDownError):
        await aggregator.handle([MARKER, SAMPLE], sink)
    await aggregator.handle([MARKER, SAMPLE], sink)
    assert len(sink.results()) == 1


async def test_a_deadline_whose_transaction_failed_is_tried_again(aggregator: Aggregator) -> None:
    sink = Sink(failures=1)
    with pytest.raises(BrokerDownError):
        await aggregator.handle([record(opened(3))], sink)
    await aggregator.handle([], sink)
    assert len(sink.results()) == 1


async def test_reviews_that_are_read_with_the_answers_after_a_crash_are_waited_for_no_more(
    aggregator: Aggregator,
) -> None:
    """An older owner has asked for them, and what it knew of that is lost with it."""
    options = VoteOptions(min_share=0.4, review=ReviewOptions())
    aggregator.windows = WindowBook({}, options)
    marker = replace(opened(4, Mode.DEEP), question="What is 3 + 4?", max_new_tokens=2048, deadline_at=2**42)
    answers = [sample(index, answer) for index, answer in enumerate(("7", "8", "8", "7"))]
    asked = Sink()
    await aggregator.handle([record(event) for event in (marker, *answers)], asked)
    reviews = [
        replace(sample(4 + n, "A", role=Role.REVIEW), path=path) for n, path in enumerate(asked.paths())
    ]
    assert len(reviews) == 2 and not asked.results()
    sink = Sink()
    later = Aggregator(
        aggregator.settings, CODEC, (SAMPLES, 0), aggregator.changelog, aggregator.tell, options
    )
    await later.handle([record(event) for event in (marker, *answers, *reviews)], sink)
    later.close()
    assert [event.status for event in sink.results() if isinstance(event, Result)] == [Status.DONE]


async def test_results_are_read_back_from_the_oldest_open_window_on(
    aggregator: Aggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its marker is acknowledged, so no record brings it again; what it led to may be written already."""
    await aggregator.handle([record(replace(opened(expected=3), deadline_at=2**42))], Sink())
    asked: list[int] = []
    monkeypatch.setattr(aggregator, "open_sink", asked.append)
    await aggregator._ready(9_000_000_000_000)
    assert asked == [aggregator.windows.earliest()]


OPEN = replace(opened(3), deadline_at=2**42)


def cancel(at: int | None = None) -> Source:
    return record(Control("q", 0, ControlAction.CANCEL, now_ms() if at is None else at, "no more"))


async def test_an_order_to_cancel_ends_a_window_once_and_stops_its_workers(aggregator: Aggregator) -> None:
    sink = Sink()
    await aggregator.handle([record(OPEN), SAMPLE], sink)
    await aggregator.handle([cancel()], sink)
    await aggregator.handle([cancel(), record(sample(1, "42")), record(sample(2, "42"))], sink)
    assert [out.topic for out in sink.written] == [RESULTS, CONTROL]
    word = CODEC.decode(sink.written[1].value or b"")
    assert isinstance(word, Control) and (word.action, word.reason) == (ControlAction.DECIDED, "cancelled")
    assert told(aggregator) == [Status.RUNNING, Status.CANCELLED]


async def test_an_order_waits_for_its_marker_through_a_restart(aggregator: Aggregator) -> None:
    sink = Sink()
    await aggregator.handle([cancel()], sink)
    assert not sink.written
    later = Aggregator(aggregator.settings, CODEC, (SAMPLES, 0), aggregator.changelog, aggregator.tell)
    await later.prepare()
    await later.handle([record(OPEN)], sink)
    later.close()
    (result,) = sink.results()
    assert isinstance(result, Result) and (result.status, result.why) == (
        Status.CANCELLED,
        "cancelled: no more",
    )
    assert changelog(aggregator).read(0) == {}


async def test_an_order_that_meets_nothing_leaves_nothing(aggregator: Aggregator) -> None:
    old = now_ms() - round(aggregator.settings.window.keep_closed * 1000) - 1
    await aggregator.handle([cancel(at=old)], Sink())
    assert changelog(aggregator).read(0) == {} and len(aggregator.windows) == 0
    await aggregator.handle([cancel()], Sink())
    assert len(changelog(aggregator).read(0)) == len(aggregator.windows) == 1


async def test_another_word_on_samples_is_no_order(aggregator: Aggregator) -> None:
    sink = Sink()
    decided = record(Control("q", 0, ControlAction.DECIDED, now_ms()))
    await aggregator.handle([record(OPEN), decided], sink)
    assert not sink.written and len(aggregator.windows) == 1


async def test_an_end_that_was_published_before_a_crash_is_neither_repeated_nor_contradicted(
    aggregator: Aggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order comes together with records that had led to another end."""
    known = {result_identity("q", 0, 0)}
    monkeypatch.setattr(aggregator, "written", known.__contains__)
    sink = Sink()
    await aggregator.handle([record(OPEN), SAMPLE, cancel()], sink)
    assert not sink.written and told(aggregator) == []
    assert changelog(aggregator).read(0) == {}


async def test_states_are_told_as_they_move(aggregator: Aggregator) -> None:
    sink = Sink(failures=1)
    await aggregator.handle([record(replace(OPEN, expected=2))], sink)
    assert told(aggregator) == [Status.PENDING]
    both = [SAMPLE, record(sample(1, "42"))]
    with pytest.raises(BrokerDownError):
        await aggregator.handle(both, sink)
    await aggregator.handle(both, sink)
    assert told(aggregator) == [Status.PENDING, Status.RUNNING, Status.DONE]


def told(aggregator: Aggregator) -> list[Status]:
    tell: Any = aggregator.tell
    return tell.states


def changelog(aggregator: Aggregator) -> Log:
    log: Any = aggregator.changelog
    return log


async def test_a_result_goes_on_with_its_requests_trace_after_a_restart(aggregator: Aggregator) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    sink = Sink()
    await aggregator.handle([record(replace(opened(1), trace=trace, deadline_at=2**42))], sink)
    later = Aggregator(aggregator.settings, CODEC, (SAMPLES, 0), aggregator.changelog, aggregator.tell)
    await later.prepare()
    await later.handle([SAMPLE], sink)
    later.close()
    (out,) = (out for out in sink.written if out.topic == RESULTS)
    assert out.headers == (("traceparent", trace.encode()),)


async def test_a_vote_is_told_once_its_result_is_written(
    aggregator: Aggregator, told_spans: InMemorySpanExporter
) -> None:
    sink = Sink()
    sink.failures = 1
    late = record(replace(opened(3), request_id="late", deadline_at=1), 2)
    with pytest.raises(BrokerDownError):
        await aggregator.handle([MARKER, SAMPLE, late], sink)
    assert not told_spans.get_finished_spans()
    await aggregator.handle([MARKER, SAMPLE, late], sink)
    found = {
        dict(span.attributes or {})["tallystream.request_id"]: dict(span.attributes or {})
        for span in told_spans.get_finished_spans()
    }
    assert found["q"] == {
        "tallystream.request_id": "q",
        "tallystream.run": 0,
        "tallystream.revision": 0,
        "tallystream.status": "done",
        "tallystream.votes": (1,),
    }
    assert found["late"]["error.type"] == "deadline_exceeded"
