"""What the batcher makes of requests that belong to a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from talk_events import CODEC, request

from agents.batcher import Batcher
from pipeline.errors import BrokerDownError
from pipeline.events import Batch, InferenceRequest, Opened, Session, Turn, TurnKind
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Headers, Identity, Output, opened_identity
from pipeline.settings import load_settings
from pipeline.topics import LANES, REQUESTS, SAMPLES, TURNS, request_partition, session_shard

SHARDS = 3
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PLACE = (REQUESTS, request_partition("q", 3, SHARDS))
SESSION = Session("u", "s")


class Known:
    """What a sink knows to be written."""

    def __init__(self, *known: Identity) -> None:
        self.has = set(known).__contains__

    def close(self) -> None: ...


@pytest.fixture
async def batcher() -> AsyncIterator[Batcher]:
    worker = Batcher(load_settings(bootstrap="nowhere:1", shards=SHARDS), CODEC, PLACE)
    yield worker
    worker.close()


async def written(
    batcher: Batcher, asks: InferenceRequest, *known: Identity, headers: Headers = ()
) -> list[Output]:
    sink: Any = Known(*known)
    batcher._sink = sink
    outputs: list[Output] = []

    async def emit(found: Iterable[Output]) -> None:
        outputs.extend(found)

    value = CODEC.encode(asks)
    await batcher.handle([Source(*PLACE, 0, 2**42, asks.request_id.encode(), value, headers)], emit)
    return outputs


async def test_a_turn_is_opened_at_once_and_goes_to_its_conversation_instead_of_a_lane(
    batcher: Batcher,
) -> None:
    asks = replace(request("q"), created_at=0)
    marker, turn = await written(batcher, asks)
    opened, word = CODEC.decode(marker.value or b""), CODEC.decode(turn.value or b"")
    assert marker.topic == SAMPLES and isinstance(opened, Opened) and opened.session == SESSION
    assert (turn.topic, turn.partition) == (TURNS, session_shard("u", "s", SHARDS))
    assert isinstance(word, Turn) and (word.kind, word.request_id) == (TurnKind.ASKED, "q")
    assert (word.appended_at, word.deadline_at) == (2**42, opened.deadline_at)
    assert CODEC.decode(word.request or b"") == asks


async def test_a_turn_whose_marker_is_written_is_written_too(batcher: Batcher) -> None:
    asks = replace(request("q"), created_at=0)
    (marker, _) = await written(batcher, asks)
    assert await written(batcher, asks, *marker.identities) == []


@pytest.mark.parametrize(
    "change",
    [{"session": Session("", "s")}, {"session": Session("u", "a\0b")}, {"session": Session("u" * 129, "s")}],
)
async def test_a_session_that_can_not_be_is_refused_in_its_window(
    batcher: Batcher, change: dict[str, Any]
) -> None:
    (marker,) = await written(batcher, replace(request("q"), created_at=0, **change))
    opened = CODEC.decode(marker.value or b"")
    assert isinstance(opened, Opened) and opened.error is not None and opened.session is None
    assert opened.error.code == "invalid_request" and "session" in opened.error.message


async def test_a_later_run_is_no_turn(batcher: Batcher) -> None:
    (marker,) = await written(batcher, replace(request("q"), created_at=0, run=1))
    opened = CODEC.decode(marker.value or b"")
    assert isinstance(opened, Opened) and opened.error is not None and "run" in opened.error.message


async def test_a_turn_that_is_too_late_is_not_handed_on(batcher: Batcher) -> None:
    (marker,) = await written(batcher, request("q"))
    assert marker.topic == SAMPLES


async def test_without_a_session_a_request_goes_to_its_lane(batcher: Batcher) -> None:
    outputs = await written(batcher, replace(request("q"), created_at=0, session=None))
    assert [out.topic for out in outputs] == [SAMPLES, LANES[3]]
    assert opened_identity("q", 0) in outputs[0].identities


async def test_what_a_request_leads_to_goes_on_with_its_trace(batcher: Batcher) -> None:
    headers = (("traceparent", TRACE.encode()),)
    asks = replace(request("q"), created_at=0)
    marker, turn = await written(batcher, asks, headers=headers)
    opened, word = CODEC.decode(marker.value or b""), CODEC.decode(turn.value or b"")
    assert isinstance(opened, Opened) and isinstance(word, Turn)
    assert (opened.trace, word.trace, marker.headers) == (TRACE, TRACE, headers)
    _, batch = await written(batcher, replace(asks, session=None), headers=headers)
    event = CODEC.decode(batch.value or b"")
    assert isinstance(event, Batch) and [group.trace for group in event.groups] == [TRACE]
    assert batch.headers == headers


async def test_steps_are_told_once_they_are_written_with_what_they_were_and_what_went_wrong(
    batcher: Batcher, told_spans: InMemorySpanExporter
) -> None:
    asks = replace(request("q"), created_at=0, session=None)
    other = next(f"r{n}" for n in range(99) if request_partition(f"r{n}", 3, SHARDS) == PLACE[1])
    records = [
        Source(*PLACE, offset, 2**42, b"", value)
        for offset, value in enumerate(
            [CODEC.encode(asks), CODEC.encode(replace(asks, request_id=other, prompt="")), b"no event"]
        )
    ]
    sink: Any = Known()
    batcher._sink = sink

    async def refuse(_: Iterable[Output]) -> None:
        raise BrokerDownError("away")

    async def take(_: Iterable[Output]) -> None: ...

    with pytest.raises(BrokerDownError):
        await batcher.handle(records, refuse)
    assert not told_spans.get_finished_spans()
    await batcher.handle(records, take)
    found = told_spans.get_finished_spans()
    assert [span.name for span in found] == ["open request"] * 3 + ["write batch"]
    good, refused, letter, batch = (dict(span.attributes or {}) for span in found)
    assert good == {
        "messaging.destination.name": REQUESTS,
        "messaging.kafka.offset": 0,
        "messaging.destination.partition.id": str(PLACE[1]),
        "tallystream.request_id": "q",
        "tallystream.run": 0,
        "tallystream.priority": 3,
        "tallystream.mode": "fast",
        "tallystream.samples": 1,
    }
    assert (refused["error.type"], letter["error.type"]) == ("invalid_request", "bad_magic")
    assert letter["messaging.kafka.offset"] == 2
    assert batch == {"messaging.destination.name": LANES[3], "tallystream.batch.requests": 1}
