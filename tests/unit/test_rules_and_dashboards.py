"""Rules that promtool accepts, and no rule or panel that asks for a metric which nothing tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client import REGISTRY

from pipeline import metrics
from pipeline.gateway.context import Gateway
from pipeline.gateway.measures import GatewayMetrics
from pipeline.ledger import Ledger
from pipeline.partition_metrics import PartitionMetrics
from pipeline.store.tasks import NO_LOAD
from tests.asked_metrics import DASHBOARD, OPS, RULES, asked, family

TESTS = RULES.with_name("alerts_test.yml")
_NoHub = SimpleNamespace(listeners=0, dropped=0)
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)


@pytest.fixture(scope="module")
def told() -> set[str]:
    assert metrics.SAMPLES  # imported, so that they are registered
    idle = cast(Gateway, SimpleNamespace(store=SimpleNamespace(load=lambda: NO_LOAD), hub=_NoHub))
    own = [PartitionMetrics(Ledger()), GatewayMetrics(idle)]
    families = [*REGISTRY.collect(), *(metric for each in own for metric in each.collect())]
    return {family(metric.name) for metric in families}


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@needs_promtool
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    ran = subprocess.run(
        ["promtool", "test", "rules", TESTS], capture_output=True, text=True, check=False, cwd=TESTS.parent
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_the_configuration_is_valid() -> None:
    config = OPS / "prometheus" / "prometheus.yml"
    ran = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_alert_has_a_test_and_says_what_is_wrong() -> None:
    rules = RULES.read_text()
    names = re.findall(r"alert: (\w+)", rules)
    assert len(names) == len(set(names)) == len(re.findall(r"summary: ", rules)) >= 10
    tested = TESTS.read_text()
    assert [name for name in names if tested.count(f"alertname: {name}") < 2] == []


def test_every_alert_has_its_first_steps_in_the_documents() -> None:
    told = set(
        re.findall(r"^\| `(\w+)` \|", (OPS.parent / "docs" / "operations.md").read_text(), re.MULTILINE)
    )
    assert set(re.findall(r"alert: Tallystream(\w+)", RULES.read_text())) - told == set()


@pytest.mark.parametrize("text", [RULES.read_text(), " ".join(expressions())], ids=["rules", "dashboard"])
def test_every_metric_that_is_asked_for_is_told(text: str, told: set[str]) -> None:
    assert asked(text)
    assert asked(text) - told == set()


def test_the_dashboard_has_a_place_for_each_panel() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
