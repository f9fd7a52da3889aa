"""Short chaos runs on a Kafka of their own: nothing is found, and something is found where a guarantee is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.admin import create_topics
from pipeline.cli import app
from pipeline.errors import ConfigError
from pipeline.settings import Settings

pytestmark = pytest.mark.integration


def chaos(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and counts of one run; the agents' logs stay in the test's folder."""
    counts = folder / "counts.json"
    logs = ("--keep-logs", str(folder / "logs"))
    quick = ("--rate", "6", "--pause", "0.2", "--calm", "1", "--stuck-after", "45")
    ran = CliRunner().invoke(
        app, ["chaos", *quick, *options, "--json", str(counts), *logs], env={"TALLYSTREAM_BOOTSTRAP": ""}
    )
    assert counts.exists(), ran.output
    return ran.exit_code, json.loads(counts.read_text())


def test_six_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    code, counts = chaos(tmp_path, "--kills", "6", "--brokers", "1", "--seed", "2")
    assert counts["findings"] == []
    assert (code, counts["ok"], counts["kills"]) == (0, True, 6)
    assert set(counts["kills_by_role"]) == {"batcher", "worker", "aggregator", "webhook", "broker"}
    assert counts["final_results"] == counts["requests"] > 0
    assert counts["deliveries"] > 0


def test_without_the_fence_the_same_audit_finds_duplicates(tmp_path: Path) -> None:
    code, counts = chaos(tmp_path, "--kills", "4", "--broken", "no-fence", "--seed", "11")
    assert (code, counts["ok"]) == (1, False)
    assert counts["duplicated"] > 0


def test_a_kafka_that_is_in_use_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topics(settings.model_copy(update={"shards": 2}))  # as every test of this Kafka has them
    monkeypatch.setenv("TALLYSTREAM_BOOTSTRAP", settings.bootstrap)
    with pytest.raises(ConfigError, match="in use"):
        CliRunner().invoke(app, ["chaos", "--kills", "1"], catch_exceptions=False)
