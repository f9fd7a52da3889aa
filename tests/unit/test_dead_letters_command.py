from __future__ import annotations

import pytest
import typer

from pipeline.commands.moments import when
from pipeline.kafka.dead_letters import Cause
from pipeline.replay.letters import Letter, Selection

NOW = 1_800_000_000.0
CAUSE = Cause("bad_magic", "m", "batcher", 1, "requests", 0, 5, 1_000, 1_000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", 1_799_999_970_000),
        ("2h", 1_799_992_800_000),
        ("7d", 1_799_395_200_000),
        ("2026-05-01T12:00", 1_777_636_800_000),
        ("2026-05-01T14:00+02:00", 1_777_636_800_000),
        ("2026-05-01", 1_777_593_600_000),
        ("999999999d", 1),
    ],
)
def test_a_time_is_so_long_ago_or_a_moment(text: str, ms: int) -> None:
    assert when(text, NOW, "--since") == ms


@pytest.mark.parametrize("text", ["", "yesterday", "2x", "-2h", "h", "2026-13-01"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="2h, 7d or 2026"):
        when(text, NOW, "--since")


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(code="bad_magic", stage="batcher", topic="requests", key="k", since=2_000), True),
        (Selection(code="too_short"), False),
        (Selection(stage="worker"), False),
        (Selection(topic="samples"), False),
        (Selection(key="K"), False),
        (Selection(key=""), False),
        (Selection(since=2_001), False),
        (Selection(until=2_000), False),
        (Selection(until=2_001), True),
    ],
)
def test_a_selection_takes_what_fits_all_of_it(selection: Selection, taken: bool) -> None:
    assert selection.takes(Letter((0, 1), 2_000, CAUSE, b"k", 3)) is taken
