"""Plain values between the program's sandbox and that of its tests.

Only data crosses: a receiver builds built-in types and nothing else, so that what a program can forge is a value,
never a comparison. A subclass travels as the built-in it derives from.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, cast

MAX_FRAME = 8 * 1024 * 1024
MAX_ITEMS = 20_000
"""Items that are taken from a generator; a longer one can not travel."""
_SAFE_INT = 1 << 63
_DICT: Any = dict
_COLLECTIONS: tuple[tuple[Any, str], ...] = (
    (list, "list"),
    (tuple, "tuple"),
    (set, "set"),
    (frozenset, "frozenset"),
)
_ITERATORS: Any = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    type(iter([])),
    type(iter(())),
    type(iter({})),
)


class CannotTravelError(TypeError):
    """The value is not made of built-in types."""


class ChannelClosedError(Exception):
    """The other side is gone, or sends what is not a frame."""


def encode(value: Any, handle_of: Callable[[Any], int | None] = lambda value: None) -> Any:
    """JSON of a value.

    Args:
        handle_of: the number under which the other side knows an object that stays where it is.

    Raises:
        CannotTravelError: there is no plain form.
    """

    def many(values: Iterable[Any]) -> list[Any]:
        return [encode(item, handle_of) for item in values]

    handle = handle_of(value)
    if handle is not None:
        return ["handle", handle]
    if value is None or value is True or value is False:
        return value
    if _is(value, str):
        return str.__add__(value, "")
    if _is(value, int):
        number = int.__add__(value, 0)
        return number if -_SAFE_INT < number < _SAFE_INT else ["int", hex(number)]
    if _is(value, float):
        return value if type(value) is float else ["float", float.hex(value)]
    if _is(value, dict):
        return ["dict", [many(pair) for pair in _DICT.items(value)]]
    for kind, name in _COLLECTIONS:
        if _is(value, kind):
            return [name, many(kind.__iter__(value))]
    if _is(value, bytes | bytearray):
        return ["bytearray" if _is(value, bytearray) else "bytes", bytes(value).hex()]
    if _is(value, complex):
        return ["complex", float.hex(value.real), float.hex(value.imag)]
    if _is(value, range):
        return ["range", value.start, value.stop, value.step]
    if _is(value, Fraction):
        return ["fraction", f"{value.numerator:x}", f"{value.denominator:x}"]
    if _is(value, Decimal):
        return ["decimal", str(value)]
    if _is(value, _ITERATORS):
        items: list[Any] = list(islice(value, MAX_ITEMS + 1))
        if len(items) > MAX_ITEMS:
            raise CannotTravelError(f"more than {MAX_ITEMS} items of an iterator")
        return ["iterator", many(items)]
    raise CannotTravelError(f"a value of type {type(value).__name__} can not leave the sandbox")


def decode(data: Any, object_of: Callable[[int], Any] | None = None) -> Any:
    """The value of a JSON form.

    Raises:
        ChannelClosedError: nothing that ``encode`` makes.
    """

    def many(items: Any) -> list[Any]:
        return [decode(item, object_of) for item in items]

    if not isinstance(data, list):
        if isinstance(data, dict):
            raise ChannelClosedError("not a value")
        return data
    try:
        name, *rest = cast("list[Any]", data)
        match name:
            case "handle" if object_of is not None:
                return object_of(rest[0])
            case "int":
                return int(rest[0], 16)
            case "float":
                return float.fromhex(rest[0])
            case "list":
                return many(rest[0])
            case "tuple":
                return tuple(many(rest[0]))
            case "set":
                return set(many(rest[0]))
            case "frozenset":
                return frozenset(many(rest[0]))
            case "dict":
                return {decode(key, object_of): decode(value, object_of) for key, value in rest[0]}
            case "bytes":
                return bytes.fromhex(rest[0])
            case "bytearray":
                return bytearray.fromhex(rest[0])
            case "complex":
                return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
            case "range":
                return range(*rest)
            case "fraction":
                return Fraction(int(rest[0], 16), int(rest[1], 16))
            case "decimal":
                return Decimal(rest[0])
            case "iterator":
                return iter(many(rest[0]))
            case _:
                raise ChannelClosedError("not a value")
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise ChannelClosedError("not a value") from error


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind)  # in a function of its own, so that the value's type stays open


def send(descriptor: int, message: Any) -> None:
    """Write one frame: four bytes of length, big endian, and JSON.

    Raises:
        CannotTravelError: too large, or too deep.
        ChannelClosedError: nobody reads.
    """
    try:
        body = json.dumps(message).encode("ascii")
    except (RecursionError, ValueError) as error:
        raise CannotTravelError("a value that is nested too deeply can not leave the sandbox") from error
    if len(body) > MAX_FRAME:
        raise CannotTravelError(
            f"a value of {len(body)} bytes can not leave the sandbox, {MAX_FRAME} is the most"
        )
    frame = memoryview(len(body).to_bytes(4, "big") + body)
    try:
        while frame:
            frame = frame[os.write(descriptor, frame) :]
    except OSError as error:
        raise ChannelClosedError("nobody reads") from error


def receive(descriptor: int) -> Any:
    """Read one frame.

    Raises:
        ChannelClosedError: the end, or no frame.
    """
    size = int.from_bytes(_exactly(descriptor, 4), "big")
    if size > MAX_FRAME:
        raise ChannelClosedError("too large a frame")
    try:
        return json.loads(_exactly(descriptor, size))
    except (ValueError, RecursionError) as error:
        raise ChannelClosedError("not a frame") from error


def _exactly(descriptor: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        try:
            part = os.read(descriptor, min(size - len(found), 1 << 20))
        except OSError as error:
            raise ChannelClosedError("the channel is broken") from error
        if not part:
            raise ChannelClosedError("the channel has ended")
        found += part
    return bytes(found)
