"""A plan holds its load, grows with it, and says what is full first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pipeline.capacity import Demand, Plan, Prices, Rates, plan
from pipeline.cli import app
from pipeline.commands.capacity import CORE_MS
from pipeline.topics import declared_topics

RATES = Rates(1_000.0, CORE_MS)
DEMANDS = st.builds(
    Demand,
    per_day=st.floats(1, 1e10),
    peak=st.floats(1, 50),
    samples=st.floats(1, 64),
    paths=st.integers(1, 3),
    prompt_tokens=st.floats(1, 1e4),
    answer_tokens=st.floats(1, 1e4),
    callbacks=st.floats(0, 3),
)


@given(DEMANDS)
def test_nothing_is_fuller_than_planned_and_one_less_would_be(demand: Demand) -> None:
    found = plan(demand, RATES)
    for limit in found.limits:
        # Partitions come with shards, not with load: there is nothing to keep free.
        assert limit.times * (1 if "partitions" in limit.what else RATES.busy) >= 1 - 1e-9, limit
    drawn = (found.workers - 1) * RATES.worker_tokens * RATES.busy
    assert drawn < found.tokens_per_second * (1 + 1e-9)
    assert found.shards >= found.workers
    assert found.brokers >= 3


@given(DEMANDS, st.floats(1, 100))
def test_more_load_never_needs_less(demand: Demand, times: float) -> None:
    small, large = plan(demand, RATES), plan(replace(demand, per_day=demand.per_day * times), RATES)
    for part in ("workers", "shards", "brokers", "kept_gb", "mb_per_second"):
        assert getattr(large, part) >= getattr(small, part)


@given(DEMANDS)
def test_what_is_full_first_stands_first(demand: Demand) -> None:
    times = [limit.times for limit in plan(demand, RATES).limits]
    assert times == sorted(times)


def test_figures_of_one_request_a_second() -> None:
    found = plan(Demand(86_400, peak=1, samples=2, prompt_tokens=100, answer_tokens=100, callbacks=0), RATES)
    assert (found.per_second, found.tokens_per_second, found.workers, found.shards) == (1, 200, 1, 1)
    sizes = {topic.name: topic for topic in found.topics}
    assert sizes["requests"].request_bytes == 350 + 450
    assert sizes["requests"].kept_gb == pytest.approx(800 * 7 * 86_400 / 1e9)
    assert sizes["samples"].request_bytes == 350 + 2 * (350 + 450)
    assert sizes["deliveries"].request_bytes == 0
    assert {topic.name for topic in found.topics if topic.name != "batches.0 … 5"} <= {
        spec.name for spec in declared_topics(1, "a")
    }


def test_a_price_is_of_workers_cores_and_every_copy_on_disk() -> None:
    demand = Demand(86_400, peak=1)
    found = plan(demand, RATES, replication=2, prices=Prices(worker_hour=1))
    assert found.cost_per_day == 24
    disk = plan(demand, RATES, replication=2, prices=Prices(disk_gb_month=30))
    assert disk.cost_per_day == pytest.approx(2 * disk.kept_gb)


def invoke(*options: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["capacity", "--requests-per-day", "1e6", *options])
    return ran.exit_code, ran.output


def test_the_command_shows_what_is_needed_and_what_is_full_first() -> None:
    code, said = invoke("--worker-tokens", "60", "--worker-hour", "1")
    assert code == 0
    for part in ("workers", "shards", "brokers", "cores: aggregator", "requests", "full first", "a thousand"):
        assert part in said


def test_its_json_is_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    file.write_text(json.dumps({"rows": [{"name": "model, mixed: slots", "value": 60.0}]}))
    code, said = invoke("--bench", str(file), "--json")
    assert code == 0
    found = json.loads(said)
    expected: Plan = plan(Demand(1e6), Rates(60.0, CORE_MS))
    assert (found["workers"], found["brokers"]) == (expected.workers, expected.brokers)


@pytest.mark.parametrize("text", ["", "{}", '{"rows": [{"name": "other", "value": 1}]}'])
def test_a_file_that_is_no_bench_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (file := tmp_path / "x.json").write_text(text)
    ran = CliRunner().invoke(app, ["capacity", "--requests-per-day", "1e6", "--bench", str(file)])
    assert ran.exit_code != 0
    assert "--bench" in str(ran.exception)


def test_without_a_rate_it_says_what_to_give() -> None:
    code, said = invoke()
    assert (code, "--worker-tokens" in said) == (2, True)
