"""Events to bytes and back.

Two wire formats are read, whatever is configured:

- Confluent: magic 0, then the schema's id (4 bytes, big endian), then the Avro body;
- Avro single-object: C3 01, then the schema's fingerprint (8 bytes, little endian), then the body.

The first is written when a registry is configured, the second when none is.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from fastavro import schemaless_reader, schemaless_writer  # pyright: ignore[reportUnknownVariableType]

from pipeline.errors import (
    BadMagicError,
    DecodeError,
    TooShortError,
    TrailingBytesError,
    UnknownSchemaError,
)
from pipeline.events import EVENT_TYPES, Event
from pipeline.kafka.schemas import Schema, current_schemas, earlier_schemas

CONFLUENT_MAGIC = 0
SINGLE_OBJECT_MAGIC = b"\xc3\x01"
_TYPES: dict[str, type[Event]] = {event.__name__: event for event in EVENT_TYPES}


class SchemaRegistry(Protocol):
    """What the codec needs of a schema registry."""

    def id_of(self, schema: Schema) -> int:
        """Register the schema, or find it, and return its id."""
        ...

    def schema_of(self, schema_id: int) -> Schema:
        """The schema with this id.

        Raises:
            UnknownSchemaError: the registry answers that it has none.
            RegistryDownError: the registry does not answer.
        """
        ...


class Codec:
    """Encodes the current schemas; decodes every version, in either format."""

    def __init__(self, registry: SchemaRegistry | None = None) -> None:
        self._registry = registry
        self._schemas = current_schemas()
        self._by_fingerprint = {schema.fingerprint: schema for schema in earlier_schemas()}
        self._by_fingerprint.update({schema.fingerprint: schema for schema in self._schemas.values()})

    def encode(self, event: Event) -> bytes:
        """One event as one record value."""
        schema = self._schemas[type(event).__name__]
        out = io.BytesIO()
        if self._registry is None:
            out.write(SINGLE_OBJECT_MAGIC + schema.fingerprint)
        else:
            out.write(struct.pack(">bI", CONFLUENT_MAGIC, self._registry.id_of(schema)))
        schemaless_writer(out, schema.parsed, msgspec.to_builtins(event, builtin_types=(bytes,)))
        return out.getvalue()

    def decode(self, data: bytes) -> Event:
        """One record value as its event.

        Raises:
            DecodeError: the bytes are no event of ours; each cause has a subclass and a code.
            RegistryDownError: the schema can not be looked up now; the bytes may be good.
        """
        schema, start = self._schema_of(data)
        event_type = _TYPES.get(schema.name)
        if event_type is None:
            raise UnknownSchemaError(f"schema {schema.name!r} is not a Tallystream record")
        body = io.BytesIO(data)
        body.seek(start)
        reader = self._schemas[schema.name].parsed
        try:
            record: Any = schemaless_reader(body, schema.parsed, None if reader is schema.parsed else reader)
        except Exception as error:  # fastavro raises whatever the broken bytes lead it into
            raise DecodeError(f"{schema.name}: {type(error).__name__}: {error}") from error
        if body.tell() != len(data):
            raise TrailingBytesError(f"{schema.name}: {len(data) - body.tell()} bytes after the record")
        try:
            return msgspec.convert(record, event_type)
        except msgspec.ValidationError as error:
            raise DecodeError(f"{schema.name}: {error}") from error

    def look(self, data: bytes) -> None:
        """Look the schema of a record value up, so that ``decode`` has nobody to ask.

        Raises:
            RegistryDownError: that is not possible now.
        """
        with suppress(DecodeError):
            self._schema_of(data)

    def register(self, events: Iterable[type[Event]]) -> None:
        """Learn the ids under which these are written, so that ``encode`` has nobody to ask.

        Raises:
            UnknownSchemaError: the registry refuses a schema.
            RegistryDownError: that is not possible now.
        """
        if self._registry is not None:
            for event in events:
                self._registry.id_of(self._schemas[event.__name__])

    def _schema_of(self, data: bytes) -> tuple[Schema, int]:
        if len(data) < 5:
            raise TooShortError(f"{len(data)} bytes; a record has at least 5")
        if data[0] == CONFLUENT_MAGIC:
            (schema_id,) = struct.unpack_from(">I", data, 1)
            if self._registry is None:
                raise UnknownSchemaError(f"schema id {schema_id}, but TALLYSTREAM_REGISTRY_URL is not set")
            return self._registry.schema_of(schema_id), 5
        if data[:2] == SINGLE_OBJECT_MAGIC:
            if len(data) < 10:
                raise TooShortError(f"{len(data)} bytes; a single-object record has at least 10")
            schema = self._by_fingerprint.get(data[2:10])
            if schema is None:
                raise UnknownSchemaError(f"schema fingerprint {data[2:10].hex()} is not in schemas/")
            return schema, 10
        raise BadMagicError(f"first bytes {data[:2].hex()}; expected 00 (Confluent) or c301 (single-object)")
