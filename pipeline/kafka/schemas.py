"""The Avro schemas of ``schemas/``: the current one of each record and every earlier version."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from fastavro import parse_schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

from pipeline.errors import ConfigError

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of one record.

    Attributes:
        name: the record's short name, as the event class is called.
        text: the file's JSON, as a registry keeps it.
        parsed: ready for fastavro, with logical types taken off, so that times stay integers.
        fingerprint: CRC-64-AVRO of the canonical form, 8 bytes, little endian, as the
            single-object encoding of the Avro specification has it.
    """

    name: str
    text: str
    parsed: Any
    fingerprint: bytes


def make_schema(text: str) -> Schema:
    """Parse the JSON of one record's schema."""
    tree = json.loads(text)
    digest = fingerprint(to_parsing_canonical_form(tree), "CRC-64-AVRO")
    return Schema(
        name=tree["name"],
        text=text,
        parsed=parse_schema(_without_logical_types(tree)),
        fingerprint=bytes.fromhex(digest),
    )


@cache
def current_schemas() -> dict[str, Schema]:
    """Record name to its current schema.

    Raises:
        ConfigError: the folder is missing, so the installation is broken.
    """
    schemas = [make_schema(path.read_text("utf-8")) for path in sorted(SCHEMAS.glob("*.avsc"))]
    if not schemas:
        raise ConfigError(f"no schemas in {SCHEMAS.name}/: the installation is incomplete")
    return {schema.name: schema for schema in schemas}


@cache
def earlier_schemas() -> tuple[Schema, ...]:
    """Every version that was ever published, the current ones among them."""
    return tuple(
        make_schema(path.read_text("utf-8")) for path in sorted((SCHEMAS / "history").glob("*.avsc"))
    )


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, dict):
        items = cast(dict[str, Any], node).items()
        return {key: _without_logical_types(value) for key, value in items if key != "logicalType"}
    if isinstance(node, list):
        return [_without_logical_types(item) for item in cast(list[Any], node)]
    return node
