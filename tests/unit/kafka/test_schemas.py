from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from avro_compatibility import incompatibilities

from pipeline.events import EVENT_TYPES, Event
from pipeline.kafka.schemas import SCHEMAS, Schema, current_schemas, earlier_schemas, make_schema

PRIMITIVES: dict[Any, set[str]] = {
    str: {"string"},
    int: {"int", "long"},
    float: {"double", "float"},
    bool: {"boolean"},
    bytes: {"bytes"},
}


def assert_same(kind: Any, schema: Any, where: str, names: dict[str, Any]) -> None:
    """The Python type and the Avro schema hold the same values, fields and defaults."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (arg for arg in args if arg is not type(None))
        assert len(args) == 2 and schema[0] == "null" and len(schema) == 2, where
        assert_same(inner, schema[1], where, names)
    elif kind in PRIMITIVES:
        name = schema["type"] if isinstance(schema, dict) else schema
        assert name in PRIMITIVES[kind], where
    elif origin is tuple:
        assert args[1] is Ellipsis and schema["type"] == "array", where
        assert_same(args[0], schema["items"], where + "[]", names)
    elif origin is dict:
        assert args[0] is str and schema["type"] == "map", where
        assert_same(args[1], schema["values"], where + "{}", names)
    elif issubclass(kind, StrEnum):
        names[schema["name"]] = schema
        assert schema["type"] == "enum" and schema["name"] == kind.__name__, where
        assert schema["symbols"] == [member.value for member in kind], where
    else:
        names[schema["name"]] = schema
        assert schema["type"] == "record" and schema["name"] == kind.__name__, where
        assert_same_fields(kind, schema["fields"], where, names)


def assert_same_fields(kind: Any, declared: list[Any], where: str, names: dict[str, Any]) -> None:
    fields = dataclasses.fields(kind)
    hints = typing.get_type_hints(kind)
    assert {field.name for field in fields} == {item["name"] for item in declared}, where
    for field in fields:
        item = next(item for item in declared if item["name"] == field.name)
        path = f"{where}.{field.name}"
        assert_same(hints[field.name], item["type"], path, names)
        if field.default is not dataclasses.MISSING:
            assert item["default"] == plain(field.default), path
        elif field.default_factory is not dataclasses.MISSING:
            assert item["default"] == plain(field.default_factory()), path


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("event", EVENT_TYPES)
def test_a_dataclass_and_its_schema_are_the_same(event: type[Event]) -> None:
    tree = json.loads((SCHEMAS / f"{event.__name__}.avsc").read_text("utf-8"))
    assert tree["namespace"] == "tallystream.v1"
    assert_same(event, tree, event.__name__, {})


def test_every_schema_has_an_event_and_every_event_a_schema() -> None:
    assert set(current_schemas()) == {event.__name__ for event in EVENT_TYPES}


def test_a_current_schema_is_the_newest_of_its_history() -> None:
    for name in current_schemas():
        versions = sorted(
            (SCHEMAS / "history").glob(f"{name}.v*.avsc"), key=lambda path: int(path.name.split(".")[1][1:])
        )
        assert [path.name for path in versions] == [f"{name}.v{i + 1}.avsc" for i in range(len(versions))]
        current = (SCHEMAS / f"{name}.avsc").read_text("utf-8")
        assert current == versions[-1].read_text("utf-8"), f"{name}.avsc changed: add a version to history/"


def test_every_version_reads_every_other() -> None:
    versions: dict[str, list[Schema]] = defaultdict(list)
    for schema in earlier_schemas():
        versions[schema.name].append(schema)
    for name, schemas in versions.items():
        current = current_schemas()[name]
        assert list(incompatibilities([*schemas, current])) == []


def test_times_stay_integers() -> None:
    assert all("logicalType" not in json.dumps(schema.parsed) for schema in current_schemas().values())


Fields = list[dict[str, Any]]
FIRST: Fields = [
    {"name": "id", "type": "string"},
    {"name": "count", "type": "int", "default": 0},
    {"name": "open", "type": {"type": "enum", "name": "Open", "symbols": ["a", "b"], "default": "a"}},
    {"name": "fixed", "type": {"type": "enum", "name": "Fixed", "symbols": ["a", "b"]}},
    {"name": "note", "type": ["null", "string"], "default": None},
]


def record(fields: Fields) -> Schema:
    return make_schema(json.dumps({"type": "record", "name": "R", "namespace": "t", "fields": fields}))


def problems(change: Callable[[Fields], None]) -> list[str]:
    second = deepcopy(FIRST)
    change(second)
    return list(incompatibilities([record(FIRST), record(second)]))


COMPATIBLE: dict[str, Callable[[Fields], None]] = {
    "nothing": lambda fields: None,
    "new field with default": lambda fields: fields.append({"name": "x", "type": "int", "default": 1}),
    "field with default removed": lambda fields: fields.pop(4),
    "fields in another order": lambda fields: fields.reverse(),
    "symbol more, enum with default": lambda fields: fields[2]["type"]["symbols"].append("c"),
}
INCOMPATIBLE: dict[str, Callable[[Fields], None]] = {
    "new field without default": lambda fields: fields.append({"name": "x", "type": "int"}),
    "field without default removed": lambda fields: fields.pop(0),
    "field renamed": lambda fields: fields[0].update(name="key"),
    "type changed": lambda fields: fields[0].update(type="long"),
    "type widened, which old readers can't read": lambda fields: fields[1].update(type="long"),
    "null no longer allowed": lambda fields: fields[4].update(type="string", default=""),
    "branch more": lambda fields: fields[4]["type"].append("int"),
    "symbol more, enum without default": lambda fields: fields[3]["type"]["symbols"].append("c"),
}


@pytest.mark.parametrize("change", COMPATIBLE.values(), ids=COMPATIBLE)
def test_the_check_lets_a_compatible_change_pass(change: Callable[[Fields], None]) -> None:
    assert problems(change) == []


@pytest.mark.parametrize("change", INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_the_check_refuses_an_incompatible_change(change: Callable[[Fields], None]) -> None:
    assert problems(change)
