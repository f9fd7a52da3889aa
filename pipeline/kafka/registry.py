"""A Confluent-compatible schema registry, cached: ids and schemas never change once given."""

from __future__ import annotations

from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from pipeline.errors import DecodeError, RegistryDownError, UnknownSchemaError
from pipeline.kafka.schemas import Schema, make_schema

_NOT_FOUND = 404
_CONFLICT = 409


class Registry:
    """Subjects are record names (``tallystream.v1.Result``), as one record is used by several topics."""

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        self._url = url
        self._client = SchemaRegistryClient({"url": url, "timeout": timeout, "max.retries": 1})
        self._ids: dict[bytes, int] = {}
        self._schemas: dict[int, Schema] = {}

    def id_of(self, schema: Schema) -> int:
        known = self._ids.get(schema.fingerprint)
        if known is not None:
            return known
        subject = f"tallystream.v1.{schema.name}"
        try:
            schema_id = self._client.register_schema(subject, RegistrySchema(schema.text, "AVRO"))
        except SchemaRegistryError as error:
            if error.http_status_code == _CONFLICT:
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
        try:
            text = self._client.get_schema(schema_id).schema_str
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                raise UnknownSchemaError(f"the registry has no schema with id {schema_id}") from error
            raise RegistryDownError(f"{self._url}: {error}") from error
        except Exception as error:
            raise RegistryDownError(f"{self._url}: {error}") from error
        try:
            schema = make_schema(text or "")
        except Exception as error:
            raise DecodeError(f"schema id {schema_id} is not an Avro record: {error}") from error
        self._schemas[schema_id] = schema
        return schema
