"""The owner of a partition of conversations, with a sink of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from talk_events import CODEC, asked_word, ended_word

from agents import conversation
from agents.conversation import Conversations
from pipeline.errors import BrokerDownError
from pipeline.events import Batch, Control, ControlAction, Conversation, Event, Turn
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.records import Output
from pipeline.session_table import restored, turn_record
from pipeline.settings import ConversationSettings, load_settings
from pipeline.topics import (
    DEAD_LETTERS,
    LANES,
    SAMPLES,
    SESSIONS,
    TURNS,
    session_key,
    session_shard,
    shard_of,
)

SHARDS = 3
SETTINGS = load_settings(
    bootstrap="nowhere:1", shards=SHARDS, conversation=ConversationSettings(max_waiting=1)
)  # pyright: ignore
SHARD = session_shard("u", "s", SHARDS)
KEY = session_key("u", "s")
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Sink:
    """What was written, and what ``sessions`` holds."""

    def __init__(self) -> None:
        self.written: list[Output] = []
        self.kept: dict[bytes, bytes] = {}

    async def __call__(self, outputs: Iterable[Output]) -> None:
        for out in outputs:
            self.written.append(out)
            if out.topic == SESSIONS:
                assert out.partition == SHARD and out.key is not None
                self.kept[out.key] = out.value or b""
                if out.value is None:
                    del self.kept[out.key]

    def batches(self) -> list[tuple[int, Event]]:
        return [(out.partition, CODEC.decode(out.value or b"")) for out in self.written if out.topic in LANES]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    moment = [1_000]
    monkeypatch.setattr(conversation, "now_ms", lambda: moment[0])
    return moment


@pytest.fixture
async def owner(now: list[int]) -> AsyncIterator[Conversations]:
    worker = Conversations(SETTINGS, CODEC, (TURNS, SHARD))
    yield worker
    worker.close()


def record(word: Event | bytes, offset: int) -> Source:
    value = word if isinstance(word, bytes) else CODEC.encode(word)
    return Source(TURNS, SHARD, offset, 1_000, KEY, value)


async def test_a_turn_is_drawn_on_the_lanes_of_its_own_requests_shard(owner: Conversations) -> None:
    sink = Sink()
    await owner.handle([record(asked_word("q-1", 1_000), 0)], sink)
    ((partition, batch),) = sink.batches()
    assert partition == shard_of("q-1", SHARDS) and isinstance(batch, Batch)
    assert [group.request_id for group in batch.groups] == ["q-1"]
    head = CODEC.decode(sink.kept[KEY])
    assert isinstance(head, Conversation) and [turn.request_id for turn in head.running] == ["q-1"]


async def test_a_waiting_turn_is_kept_as_it_was_asked_until_it_begins(owner: Conversations) -> None:
    sink = Sink()
    words = [asked_word("q-1", 1_000), asked_word("q-2", 1_000)]
    await owner.handle([record(word, offset) for offset, word in enumerate(words)], sink)
    assert CODEC.decode(sink.kept[KEY + b"\x001"]) == words[1]
    assert restored(sink.kept, CODEC) == owner.talks
    await owner.handle([record(ended_word("q-1", 1_000), 2)], sink)
    assert set(sink.kept) == {KEY}
    assert len(sink.batches()) == 2


async def test_one_turn_too_many_is_cancelled_with_the_reason(owner: Conversations) -> None:
    sink = Sink()
    words = [record(asked_word(f"q-{place}", 1_000), place) for place in range(3)]
    await owner.handle(words, sink)
    (order,) = (out for out in sink.written if out.topic == SAMPLES)
    assert (order.partition, order.key) == (shard_of("q-2", SHARDS), b"q-2")
    assert CODEC.decode(order.value or b"") == Control(
        "q-2", 0, ControlAction.CANCEL, 1_000, "1 turns of its session wait already"
    )
    again = Sink()
    await owner.handle(words, again)
    assert again.written == []


async def test_time_lets_a_turn_begin_and_forgets_a_session(owner: Conversations, now: list[int]) -> None:
    sink = Sink()
    words = [asked_word("q-1", 1_000), asked_word("q-2", 1_000)]
    await owner.handle([record(word, offset) for offset, word in enumerate(words)], sink)
    now[0] += 59_999
    await owner.handle([], sink)
    assert len(sink.batches()) == 1
    now[0] += 1
    await owner.handle([], sink)
    assert len(sink.batches()) == 2
    ends = [ended_word("q-1", now[0]), ended_word("q-2", now[0])]
    await owner.handle([record(word, offset) for offset, word in enumerate(ends, 2)], sink)
    now[0] += 1_799_999
    await owner.handle([], sink)
    assert set(sink.kept) == {KEY}
    now[0] += 1
    await owner.handle([], sink)
    assert sink.kept == {} and owner.talks == {}


async def test_after_a_takeover_time_asks_for_what_waits(owner: Conversations, now: list[int]) -> None:
    sink = Sink()
    words = [asked_word("q-1", 1_000), asked_word("q-2", 1_000)]
    await owner.handle([record(word, offset) for offset, word in enumerate(words)], sink)
    later = Conversations(SETTINGS, CODEC, (TURNS, SHARD))
    later.restore(sink.kept)
    now[0] += 60_000
    await later.handle([], sink)
    later.close()
    assert len(sink.batches()) == 2


async def test_bad_records_go_to_dead_letters_and_the_others_go_on(owner: Conversations) -> None:
    sink = Sink()
    other = next(f"s{n}" for n in range(99) if session_shard("u", f"s{n}", SHARDS) != SHARD)
    nothing = asked_word("q-9")
    hollow = Turn("u", "s", "q-9", 0, nothing.kind, 0, request=b"{}{}{}")
    words = [b"{}{}{}", CODEC.encode(asked_word("q-8", session=other)), CODEC.encode(hollow)]
    words += [CODEC.encode(Control("q", 0, ControlAction.CANCEL, 0)), CODEC.encode(asked_word("q-1", 1_000))]
    await owner.handle([record(word, offset) for offset, word in enumerate(words)], sink)
    assert [out.value for out in sink.written if out.topic == DEAD_LETTERS] == words[:4]
    assert len(sink.batches()) == 1


def test_somebody_elses_record_on_sessions_is_passed_over() -> None:
    kept = {
        b"k": b"{}{}{}",
        b"u": CODEC.encode(asked_word("q")),
        KEY + b"\x007": CODEC.encode(asked_word("q")),
    }
    (talk,) = restored(kept, CODEC).values()
    assert [one.place for one in talk.waiting] == [7]


def test_a_word_goes_where_its_conversation_is() -> None:
    out = turn_record(asked_word("q"), SHARDS, CODEC)
    assert (out.topic, out.partition, out.key) == (TURNS, SHARD, KEY)
    assert out.identities != turn_record(ended_word("q"), SHARDS, CODEC).identities


async def test_what_sessions_holds_is_read_after_older_owners_were_fenced(
    owner: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Opened:
        def close(self) -> None:
            steps.append("closed")

    def opening(*_: object, **fields: object) -> Opened:
        steps.append("fenced")
        assert fields["reach"] == [(DEAD_LETTERS, SHARD)]
        return Opened()

    def latest(_: object, place: object) -> dict[bytes, bytes]:
        steps.append("read")
        assert place == (SESSIONS, SHARD)
        raise BrokerDownError("away")

    monkeypatch.setattr(FencedSink, "open", opening)
    monkeypatch.setattr(conversation, "latest", latest)
    with pytest.raises(BrokerDownError):
        owner.open_sink(7)
    assert steps == ["fenced", "read", "closed"]


async def test_a_turn_that_waited_goes_on_with_its_own_trace_after_a_takeover(owner: Conversations) -> None:
    sink = Sink()
    words = [asked_word("q-1", 1_000), replace(asked_word("q-2", 1_000), trace=TRACE)]
    await owner.handle([record(word, offset) for offset, word in enumerate(words)], sink)
    later = Conversations(SETTINGS, CODEC, (TURNS, SHARD))
    later.restore(sink.kept)
    await later.handle([record(ended_word("q-1", 1_000), 2)], sink)
    later.close()
    first, second = (batch for _, batch in sink.batches())
    assert isinstance(first, Batch) and isinstance(second, Batch)
    assert (first.groups[0].trace, second.groups[0].trace) == ("", TRACE)


async def test_a_turns_batch_is_told_once_it_is_written(
    owner: Conversations, told_spans: InMemorySpanExporter
) -> None:
    async def refuse(_: Iterable[Output]) -> None:
        raise BrokerDownError("away")

    word = record(replace(asked_word("q-1", 1_000), trace=TRACE), 0)
    with pytest.raises(BrokerDownError):
        await owner.handle([word], refuse)
    assert not told_spans.get_finished_spans()
    owner.restore({})
    await owner.handle([word], Sink())
    assert [span.name for span in told_spans.get_finished_spans()] == ["write batch"]
