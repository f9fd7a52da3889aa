"""What is counted, and that each name is told as Prometheus expects it."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from pipeline import metrics
from pipeline.errors import DecodeError
from pipeline.events import (
    Delivery,
    DeliveryState,
    ErrorInfo,
    FinishReason,
    HopTimings,
    Kind,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    SampleTimings,
    Status,
    Usage,
    Vote,
)
from pipeline.health_server import health_served, read_agents
from pipeline.kafka.dead_letters import Source, dead_letter
from pipeline.kafka.records import Output, task_identity
from pipeline.ledger import Ledger, Standing
from pipeline.partition_metrics import PartitionMetrics
from pipeline.settings import load_settings

SAMPLE = Sample(
    "r",
    0,
    0,
    Role.ANSWER,
    "direct",
    "7",
    FinishReason.STOP,
    prompt_tokens=10,
    completion_tokens=5,
    mean_logprob=None,
    seed=None,
    temperature=0.5,
    timings=SampleTimings(1_000, 3_000, 3_500, 5_500),
    worker="w",
)
RESULT = Result(
    "r",
    0,
    0,
    Status.DONE,
    "t",
    3,
    Mode.STANDARD,
    Kind.ANSWER,
    "7",
    0,
    0.8,
    (Vote("7", 3, 0.8, 3.0, (0, 1, 2)), Vote("8", 1, 0.2, 1.0, (3,))),
    (),
    Usage(30, 20, 12, 5, 4),
    HopTimings(1_000, 1_100, 2_000, 3_000, 4_000),
)


class Growth:
    """How much each sample of a name has grown since this was made."""

    def __init__(self) -> None:
        self._before = _all()

    def of(self, name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return round(_all().get(key, 0.0) - self._before.get(key, 0.0), 9)


def _all() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
    }


@pytest.fixture
def growth() -> Growth:
    return Growth()


def test_a_sample_is_counted_with_its_times_in_seconds(growth: Growth) -> None:
    metrics.sample_published(SAMPLE, 2)
    assert growth.of("tallystream_samples_total", role="answer", finish_reason="stop") == 1
    assert growth.of("tallystream_sample_tokens_total", kind="prompt") == 10
    assert growth.of("tallystream_sample_tokens_total", kind="completion") == 5
    assert growth.of("tallystream_sample_wait_seconds_sum", lane="2") == 2.0
    assert growth.of("tallystream_first_token_seconds_sum") == 0.5
    assert growth.of("tallystream_token_seconds_sum") == 2.0 / 4


def test_a_cached_sample_has_no_times(growth: Growth) -> None:
    metrics.sample_published(replace(SAMPLE, cached=True), 2)
    assert growth.of("tallystream_cached_samples_total") == 1
    assert growth.of("tallystream_first_token_seconds_count") == 0


def test_a_sample_that_never_began_has_no_time_of_a_token(growth: Growth) -> None:
    metrics.sample_published(replace(SAMPLE, timings=SampleTimings(1_000, 3_000, None, 3_000)), 2)
    assert growth.of("tallystream_first_token_seconds_count") == 0
    assert growth.of("tallystream_token_seconds_count") == 0


def test_a_final_result_has_an_age_and_an_agreement(growth: Growth) -> None:
    metrics.result_published(RESULT)
    assert growth.of("tallystream_results_total", mode="standard", status="done") == 1
    assert growth.of("tallystream_request_seconds_sum", mode="standard") == 3.0
    assert growth.of("tallystream_agreement_ratio_sum") == 0.75
    assert growth.of("tallystream_confidence_ratio_sum") == 0.8
    assert growth.of("tallystream_tokens_saved_total") == 12


def test_a_first_answer_has_none(growth: Growth) -> None:
    metrics.result_published(replace(RESULT, status=Status.FIRST_ANSWER))
    assert growth.of("tallystream_results_total", mode="standard", status="first_answer") == 1
    assert growth.of("tallystream_request_seconds_count", mode="standard") == 0


@pytest.mark.parametrize(
    ("result", "missed"),
    [
        (RESULT, 0),
        (replace(RESULT, status=Status.PARTIAL_DONE), 1),
        (replace(RESULT, status=Status.FAILED, votes=(), error=ErrorInfo("deadline_exceeded", "")), 1),
        (replace(RESULT, status=Status.FAILED, votes=(), error=ErrorInfo("no_answer", "")), 0),
    ],
)
def test_a_missed_deadline_is_counted(growth: Growth, result: Result, missed: int) -> None:
    metrics.result_published(result)
    assert growth.of("tallystream_deadlines_missed_total", status=str(result.status)) == missed


def test_a_refused_request_says_why(growth: Growth) -> None:
    marker = Opened("r", 0, "t", 3, Mode.FAST, Kind.ANSWER, 0, 0, 0, 0, error=ErrorInfo("bad", ""))
    metrics.opened(marker)
    metrics.opened(replace(marker, error=None))
    assert growth.of("tallystream_requests_routed_total", mode="fast") == 2
    assert growth.of("tallystream_requests_refused_total", code="bad") == 1


def test_a_transaction_counts_what_it_wrote(growth: Growth) -> None:
    tasks = tuple(task_identity(request, 0, index) for request in ("a", "b") for index in range(3))
    letter = dead_letter(
        Source("requests", 0, 7, 1, None, b"x"), DecodeError("no"), stage="batcher", shards=1
    )
    metrics.committed([Output("batches.3", 0, None, b"", tasks), letter], 0.02)
    assert growth.of("tallystream_transactions_total", outcome="committed") == 1
    assert growth.of("tallystream_transaction_seconds_sum") == 0.02
    assert growth.of("tallystream_records_written_total", topic="batches.3") == 1
    assert growth.of("tallystream_batch_requests_sum") == 2
    assert growth.of("tallystream_dead_letters_total", stage="batcher", code="decode_error") == 1


def test_an_attempt_has_an_age_at_its_end_only(growth: Growth) -> None:
    again = Delivery(
        "d",
        "r",
        0,
        0,
        "done",
        "http://x",
        "default",
        DeliveryState.PENDING,
        1,
        created_at=1_000,
        updated_at=2_000,
        next_due_at=9_000,
        body=b"",
        error=ErrorInfo("refused", ""),
    )
    taken = replace(again, state=DeliveryState.DELIVERED, next_due_at=None, updated_at=4_000, error=None)
    metrics.attempts_recorded([again, taken])
    assert growth.of("tallystream_delivery_attempts_total", state="pending", code="refused") == 1
    assert growth.of("tallystream_delivery_attempts_total", state="delivered", code="") == 1
    assert growth.of("tallystream_delivery_age_seconds_sum", state="delivered") == 3.0
    assert growth.of("tallystream_delivery_age_seconds_count", state="pending") == 0


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    settings, ledger = load_settings(home=tmp_path, app="m"), Ledger()
    ledger.own({("requests", 1): False})
    ledger.measured({("requests", 1): Standing(4, "", 6)})
    with health_served(settings, "batcher", ledger, 120.0):
        url = read_agents(settings)[0].url.replace("/healthz", "/metrics")
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            yield answer.read().decode()


def test_the_page_is_what_prometheus_reads_and_has_the_process_s_partitions(page: str) -> None:
    found = {s.name: s for family in text_string_to_metric_families(page) for s in family.samples}
    lag = found["tallystream_partition_lag_records"]
    assert (lag.labels, lag.value) == ({"topic": "requests", "partition": "1"}, 2.0)
    assert found["tallystream_partition_still_seconds"].value >= 0
    assert found["tallystream_kafka_reachable"].value == 1.0
    assert found["process_resident_memory_bytes"].value > 0


def test_the_partitions_of_a_process_that_has_ended_are_told_no_more(page: str) -> None:
    assert "tallystream_partition_lag_records{" in page
    # ``page`` is still served here, so only its own ledger may be told, once.
    assert page.count("tallystream_partition_lag_records{") == 1


def test_a_partition_that_is_held_stands_still_only_if_its_process_does() -> None:
    now = time.monotonic()
    ledger = Ledger(clock=lambda: now - 500)
    ledger.own({("requests", 0): True, ("requests", 1): False})
    ledger.measured({("requests", number): Standing(4, "", 6) for number in range(2)})
    ledger._clock = lambda: now
    ledger.worked()
    still = {
        sample.labels["partition"]: sample.value
        for family in PartitionMetrics(ledger).collect()
        for sample in family.samples
        if sample.name == "tallystream_partition_still_seconds"
    }
    assert still["1"] >= 500
    assert still["0"] < 400


def test_labels_are_few(growth: Growth) -> None:
    names = {label for _, labels in _all() for label, _ in labels}
    assert not names & {"request_id", "tenant", "url", "endpoint", "session", "user", "worker"}
