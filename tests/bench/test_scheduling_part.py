"""The bench of the worker's choice: everything short; that the simulation serves as the worker does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.bench.simulated_worker import Load, simulate
from pipeline.cli import app
from pipeline.settings import WorkerSettings

WORKER = WorkerSettings()


@pytest.mark.integration
def test_every_measure_has_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    ran = CliRunner().invoke(app, ["bench", "scheduling", "--quick", "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    for name in (
        "all lanes full: the lane furthest from its quota",
        "last lane beside a full lane 0: longest wait",
        "priority 0, 3 samples, 8 rows: p95 beside full lanes / alone",
        "a tenant in the worker's hands, 1 samples: p95 beside a flood / alone",
        "a tenant behind the flood in the partition, 1 samples: p95 beside a flood / alone",
        "tokens after a cancel, most",
        "order to cancel → result, longest",
        "worker asleep: latest end / deadline",
    ):
        assert rows[name]["goal"] is not None and rows[name]["value"] >= 0
    assert rows["last lane beside a full lane 0: longest wait"]["met"]
    assert rows["a decision, 60 / 20 waiting"]["value"] > 0


def test_a_lone_request_waits_for_nothing_and_ends_with_its_longest_sample() -> None:
    load = Load(0, samples=3, tokens=40, every=1_000.0)
    played = simulate([load], WORKER, rows=8, seconds=10, seed=1)
    assert played.waits(load) == [0, 0, 0]
    assert played.latencies(load) == [max(each.tokens for each in played.drawn) * 0.02]


def test_rows_bound_what_runs_and_what_never_begins_waits_until_the_end() -> None:
    load = Load(2, samples=1, tokens=1_000, backlog=5)
    played = simulate([load], WORKER, rows=2, seconds=4, seed=1)
    assert len(played.drawn) == 2
    assert len(played.left) == 3
    assert sorted(played.waits(load)) == [0, 0, 4, 4, 4]
    assert played.latencies(load) == [4] * 5


def test_a_partition_is_read_in_order_and_only_as_far_as_the_worker_reads() -> None:
    flood = Load(3, tenant="flood", samples=1, backlog=200)
    behind = Load(3, tenant="one", samples=1, every=10_000.0)
    ahead = Load(3, tenant="one", samples=1, every=10_000.0, in_hand=True)
    hidden, seen = (
        simulate([flood, one], WORKER, rows=1, seconds=1_000, seed=1).waits(one)[0] for one in (behind, ahead)
    )
    assert seen < 10 < hidden
