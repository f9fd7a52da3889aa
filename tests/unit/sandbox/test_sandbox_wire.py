"""Plain values across a boundary."""

from __future__ import annotations

import math
import os
import socket
from collections import Counter, namedtuple
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sandbox.inside import jail, wire
from pipeline.sandbox.report import read_report

KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    KEYS | st.complex_numbers(allow_nan=False) | st.fractions() | st.frozensets(KEYS),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner) | st.sets(KEYS),
    max_leaves=20,
)


def passed_on(value: Any) -> Any:
    here, there = socket.socketpair()
    with here, there:
        wire.send(here.fileno(), wire.encode(value))
        return wire.decode(wire.receive(there.fileno()))


@given(VALUES)
def test_a_plain_value_arrives_with_its_types(value: Any) -> None:
    assert repr(passed_on(value)) == repr(value) or passed_on(value) == value


def test_subclasses_arrive_as_what_they_derive_from() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    color = IntEnum("color", "RED")
    pair = namedtuple("pair", "a b")
    for value, plain in [(Liar(3), 3), (color.RED, 1), (pair(1, 2), (1, 2)), (Counter("aa"), {"a": 2})]:
        arrived = passed_on(value)
        assert (type(arrived), arrived) == (type(plain), plain)
    assert math.isnan(passed_on(float("nan")))
    assert passed_on(Fraction(1, 3)) == Fraction(1, 3)


@pytest.mark.parametrize("value", [object(), len, type, [object()], {"a": lambda: None}])
def test_what_is_no_plain_value_can_not_travel(value: Any) -> None:
    with pytest.raises(wire.CannotTravelError):
        wire.encode(value)


@pytest.mark.parametrize(
    "data", [{"a": 1}, ["handle", 0], ["nothing", 1], ["int", "x"], ["list", 3], ["set", [["list", []]]], []]
)
def test_what_no_encoder_makes_is_refused(data: Any) -> None:
    with pytest.raises(wire.ChannelClosedError):
        wire.decode(data)


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", b"\0\0\0\x05[1", b"\xff\xff\xff\xff", b"\0\0\0\x02[,", b"\0\0\0\x02\xff\xff"]
)
def test_what_is_no_frame_ends_the_channel(content: bytes) -> None:
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    with pytest.raises(wire.ChannelClosedError):
        wire.receive(read)
    os.close(read)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_in_which_nothing_passed(content: bytes) -> None:
    assert not any(read_report(content).outcomes)


def test_the_filter_is_made_for_known_machines_only() -> None:
    assert {len(jail.program(machine)) % 8 for machine in ("x86_64", "aarch64")} == {0}
    with pytest.raises(OSError, match="no seccomp filter for pdp11"):
        jail.program("pdp11")
