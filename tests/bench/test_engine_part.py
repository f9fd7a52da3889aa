"""The engine's part on the tiny model: every way runs, and the rows have their goals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.bench.engine_load import ends_in_turn
from pipeline.bench.engine_models import Forward
from pipeline.bench.engine_prompts import stall_among
from pipeline.cli import app


def test_the_engine_is_measured_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    only = ["--only", "engine-long", "--only", "engine-shared", "--only", "engine-memory"]
    ran = CliRunner().invoke(app, ["bench", "engine", "--quick", *only, "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    for way in ("sequential generate", "static batches, in order", "transformers' manager", "slots"):
        assert rows[f"tiny, 300 + 4: {way}"]["value"] > 0
    assert rows["tiny, 300 + 4: slots / sequential generate"]["goal"] == "≥ 3.4"
    assert rows["tiny, five samples of 300 tokens: shared, tokens read"]["met"] is True
    # Keys and values of six layers, four heads of 32 floats.
    row = rows["tiny: keys and values of a row of 1,024 tokens"]["value"]
    assert row == 1024 * 2 * 6 * 4 * 32 * 4 / 2**20


def test_one_at_a_time_waits_for_all_before() -> None:
    assert ends_in_turn([0.0, 1.0, 9.0], [4.0, 2.0, 1.0]) == [4.0, 6.0, 10.0]


def test_a_stall_is_the_longest_time_from_step_to_step() -> None:
    forwards = [
        Forward(4, 1, 0.0, 1.0),
        Forward(4, 1, 1.0, 2.0),
        Forward(1, 128, 2.0, 5.0),
        Forward(4, 1, 5.0, 6.5),
        Forward(4, 1, 6.5, 7.5),
    ]
    assert stall_among(forwards) == (1.0, 3.0, pytest.approx(4.5))
