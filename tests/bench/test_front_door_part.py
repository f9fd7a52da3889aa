"""The bench of the front door: everything short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app


@pytest.mark.integration
def test_every_measure_has_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    ran = CliRunner().invoke(app, ["bench", "front-door", "--quick", "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    name = "view from 60 results"
    assert rows[f"{name}, 360 records in all"]["value"] > 0
    assert rows[f"{name}: records a second"]["value"] > 0
    assert rows[f"{name} / a consumer that only decodes"]["goal"] is not None
