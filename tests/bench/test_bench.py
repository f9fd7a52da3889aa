"""The command on a real Kafka of its own: everything tiny, only the shape of what it says is looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.bench import celery_redis
from pipeline.bench.compare import CELERY, PIPELINE, RELAY
from pipeline.bench.trace import Hop
from pipeline.cli import app


def bench(folder: Path, *options: str) -> dict[str, Any]:
    file = folder / "bench.json"
    ran = CliRunner().invoke(app, ["bench", "pipeline", "--quick", *options, "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    found = json.loads(file.read_text())
    assert set(found) == {"machine", "rows"}
    assert {"cores", "memory_gib", "cpu", "python", "kafka", "packages"} <= set(found["machine"])
    for row in found["rows"]:
        assert set(row) == {"name", "value", "unit", "goal", "met", "spread", "note"}
        assert row["met"] in (True, False, None)
        if row["value"] is not None:
            low, high = row["spread"]
            assert low <= row["value"] <= high
    return {row["name"]: row for row in found["rows"]}


@pytest.mark.integration
def test_where_the_time_goes(tmp_path: Path) -> None:
    rows = bench(tmp_path, "--only", "hops")
    for hop in Hop:
        assert {f"idle: {hop.value}, p50", f"20/s: {hop.value}, p99"} <= set(rows)
    assert rows[f"idle: {Hop.BATCHER.value}, p50"]["goal"] is not None
    parts = sum(rows[f"idle: {hop.value}, p50"]["value"] for hop in Hop if hop is not Hop.ALL)
    assert parts >= 0
    assert rows["worker: transaction of a publication, p50 at 20/s"]["value"] > 0


@pytest.mark.integration
def test_contenders_side_by_side_and_one_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(celery_redis, "find_spec", lambda _: None)
    rows = bench(tmp_path, "--only", "compare")
    for contender in (RELAY, PIPELINE):
        assert rows[f"{contender}: p50 at 20/s"]["value"] > 0
    assert "3 × the relay's" in rows[f"{PIPELINE}: p99 at 20/s"]["goal"]
    absent = rows[f"{CELERY}: saturated"]
    assert (absent["value"], absent["met"]) == (None, None)
    assert "pip install" in absent["note"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["bench", "nothing"], "'nothing' is none of pipeline"),
        (["bench", "pipeline", "--only", "x"], "'x' is none of compare"),
    ],
)
def test_a_wrong_name_is_one_line(options: list[str], said: str) -> None:
    ran = CliRunner().invoke(app, options)
    assert ran.exit_code == 2
    assert said in ran.output
