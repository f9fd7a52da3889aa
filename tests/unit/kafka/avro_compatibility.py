"""FULL_TRANSITIVE, by trial: what each version writes, every other version reads."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from pipeline.kafka.schemas import Schema

_VALUES: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (-1, 2**31 - 1),
    "long": (2**63 - 1, 0),
    "float": (0.5,),
    "double": (0.25, -1e300),
    "string": ("", "文🙂"),
    "bytes": (b"", b"\x00\xff"),
}
_VARIANTS = 12
"""At least the symbols of the largest enum, so that every symbol and every union branch comes up."""


def incompatibilities(schemas: Iterable[Schema]) -> Iterator[str]:
    """Every pair, in either direction, in which the reader can not read what the writer writes."""
    for writer, reader in itertools.permutations(schemas, 2):
        for variant in range(_VARIANTS):
            out = io.BytesIO()
            schemaless_writer(out, writer.parsed, example(writer.parsed, variant))
            size = out.tell()
            out.seek(0)
            try:
                schemaless_reader(out, writer.parsed, reader.parsed)
            except Exception as error:
                yield f"{reader.name}: {type(error).__name__}: {error}"
                break
            assert out.tell() == size


def example(schema: Any, variant: int, names: dict[str, Any] | None = None) -> Any:
    """A value of the schema; other variants take other branches and symbols."""
    names = {} if names is None else names
    if isinstance(schema, list):
        return example(schema[(variant + 1) % len(schema)], variant, names)
    if isinstance(schema, str):
        if schema not in names:
            return _VALUES[schema][variant % len(_VALUES[schema])]
        schema = names[schema]
    if "name" in schema:
        names[schema["name"]] = schema
    match schema["type"]:
        case "record":
            return {field["name"]: example(field["type"], variant, names) for field in schema["fields"]}
        case "enum":
            return schema["symbols"][variant % len(schema["symbols"])]
        case "array":
            return [example(schema["items"], variant + i, names) for i in range(variant % 3)]
        case "map":
            return {"k": example(schema["values"], variant, names)}
        case other:
            return example(other, variant, names)
