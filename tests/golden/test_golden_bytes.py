"""Bytes that were written once stay readable, and today's events still have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_events import FOLDER, GOLDEN

from pipeline.events import EVENT_TYPES
from pipeline.kafka.codec import Codec
from pipeline.kafka.schemas import SCHEMAS


def newest(name: str) -> Path:
    version = len(list((SCHEMAS / "history").glob(f"{name}.v*.avsc")))
    return FOLDER / f"{name}.v{version}.bin"


@pytest.mark.parametrize("name", [event.__name__ for event in EVENT_TYPES])
def test_the_newest_version_has_exactly_these_bytes(name: str) -> None:
    assert Codec().encode(GOLDEN[name]) == newest(name).read_bytes()
    assert Codec().decode(newest(name).read_bytes()) == GOLDEN[name]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bin")), ids=lambda path: path.name)
def test_every_version_ever_written_is_read(path: Path) -> None:
    assert type(Codec().decode(path.read_bytes())).__name__ == path.name.partition(".")[0]


def test_every_version_has_golden_bytes() -> None:
    versions = {path.stem for path in (SCHEMAS / "history").glob("*.avsc")}
    assert versions == {path.stem for path in FOLDER.glob("*.bin")}
