"""A Confluent-compatible schema registry, cached: ids and schemas never change once given."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from pipeline.errors import DecodeError, RegistryDownError, UnknownSchemaError
from pipeline.kafka.schemas import Schema, make_schema

_SCHEMA_NOT_FOUND = 40403
"""The API's own word for it; any other 404 is said by somebody in between, e.g. a proxy."""
_CONFLICT, _UNPROCESSABLE = 409, 422
_REFUSED = (_CONFLICT, _UNPROCESSABLE)
_UNKNOWN_FOR = 1.0
"""Seconds for which an id that the registry has not is not asked again: one record is looked at twice."""


class Registry:
    """Subjects are record names (``tallystream.v1.Result``), as one record is used by several topics."""

    def __init__(self, url: str, *, timeout: float = 5.0, asking: Callable[[], None] = lambda: None) -> None:
        """Args:
        timeout: seconds.
        asking: called before each question to the server.
        """
        self._url, self._asking = url, asking
        self._client = SchemaRegistryClient({"url": url, "timeout": timeout, "max.retries": 0})
        self._ids: dict[bytes, int] = {}
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}

    def id_of(self, schema: Schema) -> int:
        known = self._ids.get(schema.fingerprint)
        if known is not None:
            return known
        subject = f"tallystream.v1.{schema.name}"
        self._asking()
        try:
            schema_id = self._client.register_schema(subject, RegistrySchema(schema.text, "AVRO"))
        except SchemaRegistryError as error:
            if error.http_status_code in _REFUSED:
                raise UnknownSchemaError(f"the registry refuses {subject}: {error}") from error
            raise RegistryDownError(f"{self._url}: {error}") from error
        except Exception as error:
            raise RegistryDownError(f"{self._url}: {error}") from error
        self._ids[schema.fingerprint] = schema_id
        return schema_id

    def schema_of(self, schema_id: int) -> Schema:
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        if time.monotonic() < self._unknown.get(schema_id, 0.0):
            raise UnknownSchemaError(_missing(schema_id))
        self._asking()
        try:
            text = self._client.get_schema(schema_id).schema_str
        except SchemaRegistryError as error:
            if error.error_code == _SCHEMA_NOT_FOUND:
                self._unknown = {schema_id: time.monotonic() + _UNKNOWN_FOR}
                raise UnknownSchemaError(_missing(schema_id)) from error
            raise RegistryDownError(f"{self._url}: {error}") from error
        except Exception as error:
            raise RegistryDownError(f"{self._url}: {error}") from error
        try:
            schema = make_schema(text or "")
        except Exception as error:
            raise DecodeError(f"schema id {schema_id} is not an Avro record: {error}") from error
        self._schemas[schema_id] = schema
        return schema


def _missing(schema_id: int) -> str:
    return f"the registry has no schema with id {schema_id}"
