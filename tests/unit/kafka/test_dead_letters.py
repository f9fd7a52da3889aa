from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadMagicError, TallystreamError, WrongPartitionError
from pipeline.kafka.dead_letters import PREFIX, Source, dead_letter, dead_letter_identities
from pipeline.kafka.records import Headers, Output, dead_letter_identity
from pipeline.topics import DEAD_LETTERS


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

    def value(self) -> bytes:
        return self.written.value

    def headers(self) -> Any:
        return list(self.written.headers) or None if self.header_list is None else self.header_list


def read_back(written: Output) -> list[tuple[str | int, ...]]:
    return list(dead_letter_identities(FakeMessage(written)))  # type: ignore[arg-type]


headers = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=8)), max_size=4).map(tuple)
sources = st.builds(
    Source,
    topic=st.sampled_from(["requests", "samples"]),
    partition=st.integers(0, 23),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.integers(-1, 2**62),
    key=st.none() | st.binary(max_size=8),
    value=st.binary(max_size=40),
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
    cause = {name.removeprefix(PREFIX): value.decode() for name, value in written.headers}
    assert cause == {
        "code": "wrong_partition",
        "message": "belongs on 1",
        "stage": "batcher",
        "topic": "requests",
        "partition": "3",
        "offset": "41",
        "timestamp": "1234",
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
    assert len(dict(written.headers)[PREFIX + "message"].decode()) == 1_000


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
        "samples", 1, 99, 1_000, b"k", b"v", (("a", b"1"), ("a", "二".encode()), ("b", b""))
    )
