from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadMagicError, RecordTooLargeError, TallystreamError, WrongPartitionError
from pipeline.events import InferenceRequest
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import (
    PREFIX,
    REPLAYED,
    Cause,
    Source,
    dead_letter,
    dead_letter_identities,
    decode_record,
)
from pipeline.kafka.records import Headers, Output, dead_letter_identity, size_of
from pipeline.topics import DEAD_LETTERS, largest_record


@dataclass
class FakeMessage:
    """A record as confluent-kafka hands it out."""

    written: Output
    header_list: Any = None

    def topic(self) -> str:
        return self.written.topic

    def partition(self) -> int:
        return self.written.partition

    def offset(self) -> int:
        return 99

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000

    def key(self) -> bytes | None:
        return self.written.key

    def value(self) -> bytes | None:
        return self.written.value

    def headers(self) -> Any:
        return list(self.written.headers) or None if self.header_list is None else self.header_list


def read_back(written: Output) -> list[tuple[str | int, ...]]:
    return list(dead_letter_identities(FakeMessage(written)))  # type: ignore[arg-type]


names = st.sampled_from(["a", "b", "traceparent"]) | st.text(max_size=8)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=8)), max_size=4).map(tuple)
sources = st.builds(
    Source,
    topic=st.sampled_from(["requests", "samples"]),
    partition=st.integers(0, 23),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(-1, 2**62),
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=40),
    headers=headers,
)


@settings(deadline=None)
@given(source=sources, shards=st.integers(1, 4))
def test_bytes_key_and_headers_are_untouched_and_the_identity_comes_back(source: Source, shards: int) -> None:
    written = dead_letter(source, BadMagicError("no magic 魔"), stage="batcher", shards=shards)
    assert (written.topic, written.key, written.value) == (DEAD_LETTERS, source.key, source.value)
    assert written.headers[: len(source.headers)] == source.headers
    assert written.partition == source.partition % shards
    assert read_back(written) == [dead_letter_identity(source.topic, source.partition, source.offset)]
    assert written.identities == tuple(read_back(written))


def test_the_headers_name_the_cause() -> None:
    source = Source("requests", 3, 41, 1_234, b"k", b"\xff")
    written = dead_letter(source, WrongPartitionError("belongs on 1"), stage="batcher", shards=2)
    cause = {name.removeprefix(PREFIX): (value or b"").decode() for name, value in written.headers}
    assert cause == {
        "code": "wrong_partition",
        "message": "belongs on 1",
        "stage": "batcher",
        "attempts": "1",
        "topic": "requests",
        "partition": "3",
        "offset": "41",
        "timestamp": "1234",
        "first_seen": "1234",
    }


def test_a_letter_that_dies_twice_is_known_by_its_last_death() -> None:
    once = dead_letter(Source("requests", 1, 5, 0, None, b"x"), BadMagicError("a"), stage="s", shards=1)
    again = Source("requests", 2, 6, 0, None, b"x", once.headers)
    assert read_back(dead_letter(again, BadMagicError("b"), stage="s", shards=1)) == [
        dead_letter_identity("requests", 2, 6)
    ]


def test_a_long_message_is_cut() -> None:
    written = dead_letter(
        Source("t", 0, 0, 0, None, b""), TallystreamError("长" * 50_000), stage="s", shards=1
    )
    assert len((dict(written.headers)[PREFIX + "message"] or b"").decode()) == 1_000


replayed = st.lists(
    st.tuples(
        st.sampled_from([PREFIX, REPLAYED]),
        st.sampled_from(["attempts", "first_seen", "code", "from", "offset"]),
        st.none() | st.binary(max_size=30) | st.integers(0, 10**12).map(lambda n: str(n).encode()),
    ),
    max_size=6,
).map(lambda items: tuple((prefix + name, value) for prefix, name, value in items))


@settings(deadline=None)
@given(source=sources, ours=replayed, attempts=st.integers(1, 5))
def test_a_letter_has_one_set_of_our_headers_whatever_it_carried(
    source: Source, ours: Headers, attempts: int
) -> None:
    again = replace(source, headers=(*ours, *source.headers, *ours))
    written = dead_letter(again, BadMagicError("x"), stage="s", shards=1, attempts=attempts)
    own = [name for name, _ in written.headers if name.startswith((PREFIX, REPLAYED))]
    assert len(own) == len(set(own)) == 9
    assert written.headers[: len(source.headers)] == source.headers
    cause = Cause.of(written.headers)
    assert cause is not None
    assert attempts <= cause.attempts <= 10**9
    assert cause.first_seen == source.timestamp or 0 < cause.first_seen < source.timestamp


def test_what_dies_again_keeps_its_first_time_and_adds_its_attempts_up() -> None:
    ours = ((REPLAYED + "attempts", b"3"), (REPLAYED + "first_seen", b"500"), (REPLAYED + "from", b"x"))
    source = Source("requests", 0, 7, 9_000, b"k", b"v", (("a", b"1"), *ours))
    written = dead_letter(source, BadMagicError("x"), stage="batcher", shards=1, attempts=2)
    cause = Cause.of(written.headers)
    assert cause is not None
    assert (cause.attempts, cause.first_seen, cause.timestamp) == (5, 500, 9_000)


@pytest.mark.parametrize(
    "source",
    [
        Source("requests", 0, 1, 5, b"k", b"v" * (20 * 1024 * 1024), (("a", b"1"),)),
        Source("requests", 0, 1, 5, b"k" * (20 * 1024 * 1024), b"v", (("a", b"1"),)),
        Source("requests", 0, 1, 5, b"k", None, (("a", b"1" * (20 * 1024 * 1024)),)),
        Source("samples", 0, 1, 5, b"k", b"v" * (4 * 1024 * 1024), (("a" * 100_000, b"1"),)),
    ],
    ids=["value", "key", "headers", "the largest record"],
)
def test_every_letter_fits_into_dead_letters(source: Source) -> None:
    error = TallystreamError("长" * 50_000 + "\ud800")
    written = dead_letter(source, error, stage="s" * 9_000, shards=1)
    assert size_of(written.key, written.value, written.headers) <= largest_record(DEAD_LETTERS)
    cause = Cause.of(written.headers)
    assert cause is not None
    if source.topic == "samples":
        assert (cause.whole_size, written.value) == (0, source.value)
    else:
        assert cause.whole_size == size_of(source.key, source.value, source.headers)
        assert (source.value or b"").startswith(written.value or b"")
        assert (source.key or b"").startswith(written.key or b"")


def test_a_record_that_was_compressed_to_fit_is_refused_but_a_request_is_answered() -> None:
    codec = Codec()
    value = codec.encode(InferenceRequest("r", "x" * 1_100_000))
    assert decode_record(codec, Source("requests", 0, 0, 0, None, value)) == codec.decode(value)
    for topic in ("batches.0", "samples", "results"):
        with pytest.raises(RecordTooLargeError, match=f"{topic} takes at most"):
            decode_record(codec, Source(topic, 0, 0, 0, None, value * 4))


@pytest.mark.parametrize(
    "strange",
    [
        (),
        (("a", b"b"),),
        ((PREFIX + "topic", b"t"), (PREFIX + "partition", b"x"), (PREFIX + "offset", b"1")),
        ((PREFIX + "topic", b"\xff"), (PREFIX + "partition", b"1"), (PREFIX + "offset", b"1")),
    ],
)
def test_records_of_others_have_no_identity(strange: Headers) -> None:
    assert read_back(Output(DEAD_LETTERS, 0, None, b"", (), strange)) == []


def test_a_source_takes_a_message_as_it_came() -> None:
    message = FakeMessage(Output("samples", 1, b"k", b"v"), [("a", b"1"), ("a", "二"), ("b", None)])
    source = Source.of(message)  # type: ignore[arg-type]
    assert source == Source(
        "samples", 1, 99, 1_000, b"k", b"v", (("a", b"1"), ("a", "二".encode()), ("b", None))
    )
