"""The codec against a real schema registry."""

from __future__ import annotations

import json

import pytest
from golden.golden_events import GOLDEN

from pipeline.errors import RegistryDownError, UnknownSchemaError
from pipeline.events import InferenceRequest
from pipeline.kafka.codec import Codec
from pipeline.kafka.registry import Registry
from pipeline.kafka.schemas import current_schemas, make_schema

pytestmark = pytest.mark.integration


def test_every_event_goes_through_the_registry_and_back(registry_url: str) -> None:
    writer, reader = Codec(Registry(registry_url)), Codec(Registry(registry_url))
    for event in GOLDEN.values():
        data = writer.encode(event)
        assert data[0] == 0
        assert reader.decode(data) == event


def test_both_wire_formats_are_read_side_by_side(registry_url: str) -> None:
    event = InferenceRequest("任务-1", "求 12 元的 50% 🙂")
    reader = Codec(Registry(registry_url))
    assert reader.decode(Codec().encode(event)) == event


def test_an_id_that_the_registry_has_not_is_unknown(registry_url: str) -> None:
    with pytest.raises(UnknownSchemaError):
        Codec(Registry(registry_url)).decode(b"\0\0\0\x0f\xff" + b"x" * 8)


def test_a_registry_that_is_away_is_never_bad_bytes() -> None:
    away = Codec(Registry("http://127.0.0.1:9", timeout=1.0))
    with pytest.raises(RegistryDownError):
        away.decode(b"\0\0\0\0\x01" + b"x" * 8)
    with pytest.raises(RegistryDownError):
        away.encode(InferenceRequest("a", "b"))


def test_an_incompatible_schema_is_refused(registry_url: str) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    registry = Registry(registry_url)
    control = current_schemas()["Control"]
    registry.id_of(control)
    SchemaRegistryClient({"url": registry_url}).set_compatibility("tallystream.v1.Control", "FULL_TRANSITIVE")
    changed = json.loads(control.text)
    changed["fields"].append({"name": "needed", "type": "string"})
    with pytest.raises(UnknownSchemaError, match="refuses"):
        registry.id_of(make_schema(json.dumps(changed)))
