from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable

import pytest
from golden.golden_events import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import (
    BadMagicError,
    DecodeError,
    RegistryDownError,
    TooShortError,
    TrailingBytesError,
    UnknownSchemaError,
)
from pipeline.events import Callback, InferenceRequest, Kind, Message, Mode, SamplingOverrides, Session
from pipeline.kafka.codec import SINGLE_OBJECT_MAGIC, Codec
from pipeline.kafka.schemas import SCHEMAS, Schema, current_schemas, make_schema


class Registry:
    """A schema registry in memory."""

    def __init__(self, *schemas: Schema) -> None:
        self._schemas = list(schemas)

    def id_of(self, schema: Schema) -> int:
        if schema not in self._schemas:
            self._schemas.append(schema)
        return 1_000_000 + self._schemas.index(schema)

    def schema_of(self, schema_id: int) -> Schema:
        if not 0 <= schema_id - 1_000_000 < len(self._schemas):
            raise UnknownSchemaError(f"no schema {schema_id}")
        return self._schemas[schema_id - 1_000_000]


class Down:
    def id_of(self, schema: Schema) -> int:
        raise RegistryDownError("away")

    def schema_of(self, schema_id: int) -> Schema:
        raise RegistryDownError("away")


PLAIN, REGISTERED = Codec(), Codec(Registry())
CODECS = pytest.mark.parametrize("codec", [PLAIN, REGISTERED], ids=["single-object", "confluent"])
SMALL = InferenceRequest("r", prompt="six times seven?")

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=20) | st.sampled_from(["六乘七是多少？", "👩‍👩‍👧 🙂", "\0", "é"])
doubles = st.floats(allow_nan=False)
texts = st.lists(text, max_size=3).map(tuple)
requests = st.builds(
    InferenceRequest,
    request_id=text,
    prompt=text,
    messages=st.lists(st.builds(Message, text, text), max_size=3).map(tuple),
    created_at=int64,
    tenant=text,
    priority=int32,
    mode=st.sampled_from(Mode),
    kind=st.sampled_from(Kind),
    images=st.lists(st.binary(max_size=20), max_size=2).map(tuple),
    tests=st.none() | text,
    sampling=st.builds(
        SamplingOverrides,
        n=st.none() | int32,
        temperature=st.none() | doubles,
        top_p=st.none() | doubles,
        max_new_tokens=st.none() | int32,
        seed=st.none() | int64,
        stop=texts,
        top_k=st.none() | int32,
        min_p=st.none() | doubles,
        repetition_penalty=st.none() | doubles,
        top_logprobs=st.none() | int32,
    ),
    deadline_ms=st.none() | int64,
    callback=st.none() | st.builds(Callback, text, text, texts),
    session=st.none() | st.builds(Session, text, text),
    run=int32,
    replay_id=st.none() | text,
    metadata=st.dictionaries(text, text, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(request=requests)
def test_any_request_comes_back_in_either_format(request: InferenceRequest) -> None:
    assert PLAIN.decode(PLAIN.encode(request)) == request
    registered = REGISTERED.encode(request)
    assert registered[0] == 0
    assert REGISTERED.decode(registered) == request
    assert REGISTERED.decode(PLAIN.encode(request)) == request


@CODECS
@pytest.mark.parametrize("name", GOLDEN)
def test_every_record_comes_back(codec: Codec, name: str) -> None:
    assert codec.decode(codec.encode(GOLDEN[name])) == GOLDEN[name]


def test_the_fingerprint_is_that_of_the_avro_specification() -> None:
    named = make_schema(
        '{"type": "enum", "name": "E", "symbols": ["a"], "doc": "no part of the canonical form"}'
    )
    assert named.fingerprint == make_schema('{"name":"E","type":"enum","symbols":["a"]}').fingerprint
    assert crc64_avro(b'"null"') == 0x63DD24E7CC258F8A
    assert named.fingerprint == struct.pack("<Q", crc64_avro(b'{"name":"E","type":"enum","symbols":["a"]}'))


def test_a_single_object_starts_with_its_fingerprint() -> None:
    data = PLAIN.encode(SMALL)
    assert data[:10] == b"\xc3\x01" + current_schemas()["InferenceRequest"].fingerprint


def test_a_confluent_record_starts_with_its_id() -> None:
    assert REGISTERED.encode(SMALL)[:3] == b"\x00\x00\x0f"  # 1,000,000 is 0x0f4240


def crc64_avro(data: bytes) -> int:
    """Straight from the specification, as independent check."""
    empty = 0xC15D213AA4D7A795
    crc = empty
    for byte in data:
        low = (crc ^ byte) & 0xFF
        for _ in range(8):
            low = (low >> 1) ^ (empty & -(low & 1))
        crc = (crc >> 8) ^ low
    return crc


HEAD = SINGLE_OBJECT_MAGIC + current_schemas()["InferenceRequest"].fingerprint
BAD: dict[str, tuple[bytes, type[DecodeError], str]] = {
    "plain JSON": (b'{"request_id": "r"}', BadMagicError, "bad_magic"),
    "nothing": (b"", TooShortError, "too_short"),
    "four bytes": (b"\x00\x00\x00\x00", TooShortError, "too_short"),
    "half a fingerprint": (HEAD[:7], TooShortError, "too_short"),
    "unknown fingerprint": (SINGLE_OBJECT_MAGIC + bytes(8) + b"\x02r", UnknownSchemaError, "unknown_schema"),
    "unknown id": (b"\x00\x00\x00\x00\x07rest", UnknownSchemaError, "unknown_schema"),
    "only a head": (HEAD, DecodeError, "decode_error"),
    "truncated string": (HEAD + b"\x28short", DecodeError, "decode_error"),
    "negative length": (HEAD + b"\x01" + PLAIN.encode(SMALL)[11:], DecodeError, "decode_error"),
    "huge length": (HEAD + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01r", DecodeError, "decode_error"),
    "endless varint": (HEAD + b"\xff" * 40, DecodeError, "decode_error"),
    "no UTF-8": (HEAD + b"\x04\xff\xfe" + PLAIN.encode(SMALL)[12:], DecodeError, "decode_error"),
    "a byte more": (PLAIN.encode(SMALL) + b"\x00", TrailingBytesError, "trailing_bytes"),
}


@CODECS
@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_bytes_are_refused_by_name(codec: Codec, case: tuple[bytes, type[DecodeError], str]) -> None:
    data, kind, code = case
    with pytest.raises(kind) as caught:
        codec.decode(data)
    assert caught.value.code == code
    assert caught.value.message


@pytest.mark.parametrize("name", GOLDEN)
def test_no_part_of_a_record_passes_for_a_record(name: str) -> None:
    data = PLAIN.encode(GOLDEN[name])
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            PLAIN.decode(data[:end])


@settings(deadline=None)
@given(
    data=st.binary(max_size=80), head=st.sampled_from([b"", b"\xc3\x01", HEAD, REGISTERED.encode(SMALL)[:5]])
)
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes, head: bytes) -> None:
    for codec in (PLAIN, REGISTERED):
        try:
            codec.decode(head + data)
        except DecodeError as error:
            assert error.code


@settings(deadline=None)
@given(st.data())
def test_a_changed_byte_raises_nothing_but_decode_errors(draw: st.DataObject) -> None:
    data = bytearray(PLAIN.encode(GOLDEN[draw.draw(st.sampled_from(sorted(GOLDEN)))]))
    data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        PLAIN.decode(bytes(data))
    except DecodeError as error:
        assert error.code


@pytest.mark.parametrize("act", [lambda c: c.encode(SMALL), lambda c: c.decode(b"\x00\x00\x00\x00\x01rest")])
def test_a_registry_that_is_away_is_no_fault_of_the_bytes(act: Callable[[Codec], object]) -> None:
    with pytest.raises(RegistryDownError) as caught:
        act(Codec(Down()))
    assert caught.value.retriable
    assert not isinstance(caught.value, DecodeError)


def test_single_objects_are_read_while_the_registry_is_away() -> None:
    assert Codec(Down()).decode(PLAIN.encode(SMALL)) == SMALL


def changed(name: str, **fields: object) -> Schema:
    """A record's schema with one field replaced, added, or (``None``) removed."""
    tree = json.loads((SCHEMAS / f"{name}.avsc").read_text("utf-8"))
    tree["fields"] = [field for field in tree["fields"] if field["name"] not in fields]
    tree["fields"] += [{"name": key, "type": value} for key, value in fields.items() if value is not None]
    return make_schema(json.dumps(tree))


def test_other_versions_of_a_record_are_read() -> None:
    control = GOLDEN["Control"]
    newer, older = changed("Control", extra="string"), changed("Control", reason=None)
    codec = Codec(Registry(newer, older))
    without = bytes(PLAIN.encode(control)[10 : -len(b"\x08done")])
    assert (
        codec.decode(b"\x00" + struct.pack(">I", 1_000_000) + PLAIN.encode(control)[10:] + b"\x02x")
        == control
    )
    decoded = codec.decode(b"\x00" + struct.pack(">I", 1_000_001) + without)
    assert decoded == dataclasses.replace(control, reason="")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (make_schema('{"type": "record", "name": "Stranger", "fields": []}'), UnknownSchemaError),
        (changed("Control", at="string"), DecodeError),
    ],
)
def test_a_registered_schema_that_is_not_ours_is_refused(schema: Schema, kind: type[DecodeError]) -> None:
    with pytest.raises(kind):
        Codec(Registry(schema)).decode(b"\x00" + struct.pack(">I", 1_000_000) + bytes(20))
