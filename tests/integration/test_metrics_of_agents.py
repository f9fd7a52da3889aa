"""What real agents tell Prometheus of requests that went through them."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.events import Callback, Delivery, Mode
from pipeline.free_ports import free_ports
from pipeline.health_server import read_agents
from pipeline.settings import Settings
from pipeline.stack import AGENTS
from tests.asked_metrics import DASHBOARD, RULES, asked, family
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

Ask = Callable[..., Any]


def told(settings: Settings) -> Counter[str]:
    """Every sample of every agent, by name and labels, summed over the agents."""
    found: Counter[str] = Counter()
    for agent in read_agents(settings):
        with urllib.request.urlopen(agent.url.replace("/healthz", "/metrics"), timeout=30) as page:
            for metric in text_string_to_metric_families(page.read().decode()):
                for sample in metric.samples:
                    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                    found[f"{sample.name}{{{labels}}}"] += sample.value
    return found


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPipeline]:
    folder, env = tmp_path_factory.mktemp("measured"), {"TALLYSTREAM_GATEWAY__PORT": "0"}
    with own_pipeline(folder, agents=(*AGENTS, "gateway"), env=env) as pipeline:
        eventually(lambda: len(read_agents(pipeline.settings)) == len(AGENTS) + 1, 120)
        yield pipeline


def test_each_hop_counts_what_went_through_it(pipeline: OwnPipeline) -> None:
    with Asker(pipeline.settings) as asker:
        callback = Callback(pipeline.receiver.url)
        ids = [asker.ask("answers=7", mode=Mode.STANDARD, callback=callback) for _ in range(5)]
        asker.put_bytes(b"no event", 0, b"x")
        asker.finals(ids)
        asker.until(
            lambda: sum(isinstance(e, Delivery) and e.state == "delivered" for e in asker.of(Delivery)) == 5,
            "callbacks",
        )
        settings = pipeline.settings
        eventually(lambda: told(settings)["tallystream_delivery_attempts_total{code=,state=delivered}"] == 5)
        found = told(settings)
    assert found["tallystream_requests_routed_total{mode=standard}"] == 5
    assert found["tallystream_samples_total{finish_reason=stop,role=answer}"] >= 10  # two of three may decide
    assert found["tallystream_results_total{mode=standard,status=done}"] == 5
    assert found["tallystream_request_seconds_count{mode=standard}"] == 5
    assert found["tallystream_dead_letters_total{code=bad_magic,stage=batcher}"] == 1
    assert found["tallystream_records_written_total{topic=results}"] == 5
    assert found["tallystream_delivery_age_seconds_count{state=delivered}"] == 5
    assert found["tallystream_transactions_total{outcome=committed}"] > 0
    assert found["tallystream_deliveries_held{}"] == 0


@pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="there is no prometheus (Debian: apt-get install prometheus)",
)
def test_prometheus_scrapes_every_process_and_understands_every_rule(
    pipeline: OwnPipeline, tmp_path: Path
) -> None:
    agents = read_agents(pipeline.settings)
    targets = [
        {"targets": [agent.url.split("/")[2]], "labels": {"role": agent.name.partition("-")[0]}}
        for agent in agents
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "tallystream", "static_configs": targets}],
    }
    with prometheus(config, tmp_path) as ask:
        eventually(lambda: len(ask("query", query="up == 1")["result"]) == len(agents))
        eventually(lambda: all(rule["health"] == "ok" for rule in rules(ask)))
        known = set(ask("metadata"))
        firing = [rule["name"] for rule in rules(ask) if rule["state"] == "firing"]
    roles = {agent.name.partition("-")[0] for agent in agents}
    assert roles == {*AGENTS, "gateway"}
    assert asked(RULES.read_text()) | asked(DASHBOARD.read_text()) <= {family(name) for name in known}
    assert firing == []


def rules(ask: Ask) -> list[dict[str, Any]]:
    """What Prometheus makes of each rule; each was evaluated at least once."""
    found = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    assert found
    return [rule | {"health": "unknown"} if not rule["evaluationTime"] else rule for rule in found]


@contextmanager
def prometheus(config: dict[str, Any], folder: Path) -> Iterator[Ask]:
    """A real Prometheus; yields its API: what stands under ``data``."""
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
    (port,) = free_ports(1)
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "prometheus.log").open("w") as log:
        child = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def ask(path: str, **parameters: str) -> Any:
        answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/{path}", params=parameters, timeout=30)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def ready() -> bool:
        assert child.poll() is None, (folder / "prometheus.log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/-/ready").is_success
        except httpx.TransportError:
            return False

    try:
        eventually(ready)
        yield ask
    finally:
        child.terminate()
        child.wait()
