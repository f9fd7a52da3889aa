"""What real agents tell Prometheus of requests that went through them."""

from __future__ import annotations

import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.events import Callback, Delivery, Mode
from pipeline.health_server import read_agents
from pipeline.settings import Settings
from pipeline.stack import AGENTS
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.own_pipeline import own_pipeline

pytestmark = pytest.mark.integration


def told(settings: Settings) -> Counter[str]:
    """Every sample of every agent, by name and labels, summed over the agents."""
    found: Counter[str] = Counter()
    for agent in read_agents(settings):
        with urllib.request.urlopen(agent.url.replace("/healthz", "/metrics"), timeout=30) as page:
            for family in text_string_to_metric_families(page.read().decode()):
                for sample in family.samples:
                    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                    found[f"{sample.name}{{{labels}}}"] += sample.value
    return found


def test_each_hop_counts_what_went_through_it(tmp_path: Path) -> None:
    with own_pipeline(tmp_path, agents=AGENTS) as pipeline, Asker(pipeline.settings) as asker:
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
