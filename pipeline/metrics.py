"""Every metric of every process, by name, and the way each is counted.

What a hop writes is counted after the commit, so that a repetition after a crash does not count twice in what was
published, only in what was tried. Labels have few values: never an id, a tenant, a URL or a text. Durations are in
seconds, from the broker's or the worker's own stamps in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from pipeline.events import Delivery, Opened, Result, Sample, Status
from pipeline.kafka.dead_letters import Cause
from pipeline.kafka.records import Output
from pipeline.topics import DEAD_LETTERS, LANES

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_SLOW: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_DAYS: Final = (0.1, 1, 10, 60, 600, 3_600, 21_600, 86_400, 432_000)
_SHARES: Final = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999)

TRANSACTIONS = Counter("tallystream_transactions", "Kafka transactions by outcome.", ["outcome"])
TRANSACTION_SECONDS = Histogram(
    "tallystream_transaction_seconds", "Of those that were committed, from begin to commit.", buckets=_FAST
)
RECORDS_WRITTEN = Counter("tallystream_records_written", "Records committed, by topic.", ["topic"])
DEAD_LETTER_RECORDS = Counter(
    "tallystream_dead_letters", "Records put aside, by the hop that could not handle them.", ["stage", "code"]
)

PARTITION_LAG = "tallystream_partition_lag_records"
PARTITION_STILL = "tallystream_partition_still_seconds"
KAFKA_REACHABLE = "tallystream_kafka_reachable"

REQUESTS_ROUTED = Counter("tallystream_requests_routed", "Requests that the batcher opened.", ["mode"])
REQUESTS_REFUSED = Counter("tallystream_requests_refused", "Of these, those that it refused.", ["code"])
BATCH_REQUESTS = Histogram(
    "tallystream_batch_requests", "Requests in one batch.", buckets=(1, 2, 4, 6, 8, 12, 16, 32)
)

SAMPLES = Counter("tallystream_samples", "Samples published.", ["role", "finish_reason"])
SAMPLE_TOKENS = Counter("tallystream_sample_tokens", "Tokens of published samples.", ["kind"])
CACHED_SAMPLES = Counter("tallystream_cached_samples", "Samples that the answer cache gave.")
SAMPLE_WAIT = Histogram(
    "tallystream_sample_wait_seconds",
    "From the batch's appending to a sample's begin.",
    ["lane"],
    buckets=_SLOW,
)
FIRST_TOKEN = Histogram(
    "tallystream_first_token_seconds", "From a sample's begin to its first token.", buckets=_SLOW
)
TOKEN_SECONDS = Histogram(
    "tallystream_token_seconds", "Of a sample after its first token, a token.", buckets=_FAST
)
ENGINE_ROWS = Gauge("tallystream_engine_rows_in_use", "Samples that the engine has.")
ENGINE_CIRCUIT = Gauge("tallystream_engine_circuit_open", "1: the engine fails and is only probed.")
LANE_HELD = Gauge("tallystream_lane_held_tasks", "Sample tasks that wait in the worker's hands.", ["lane"])

RESULTS = Counter("tallystream_results", "Results published, first answers among them.", ["mode", "status"])
REQUEST_SECONDS = Histogram(
    "tallystream_request_seconds", "From a request's making to its final result.", ["mode"], buckets=_SLOW
)
AGREEMENT = Histogram(
    "tallystream_agreement_ratio", "The leader's share of the votes in a final result.", buckets=_SHARES
)
CONFIDENCE = Histogram("tallystream_confidence_ratio", "Of final results that have one.", buckets=_SHARES)
TOKENS_SAVED = Counter("tallystream_tokens_saved", "That early stops did not have to draw; an estimate.")
DEADLINES_MISSED = Counter(
    "tallystream_deadlines_missed", "Requests that ended at their deadline, by what there was.", ["status"]
)
LATE_RECORDS = Counter(
    "tallystream_late_records", "That came after their window's end, or again.", ["record"]
)
OPEN_WINDOWS = Gauge("tallystream_open_windows", "Windows that the aggregator knows.", ["shard"])

DELIVERY_ATTEMPTS = Counter(
    "tallystream_delivery_attempts", "Attempts at callbacks that were recorded.", ["state", "code"]
)
DELIVERY_AGE = Histogram(
    "tallystream_delivery_age_seconds", "From a callback's making to its end.", ["state"], buckets=_DAYS
)
DELIVERIES_HELD = Gauge("tallystream_deliveries_held", "Callbacks that are not at their end.")


REQUESTS_WAITING = "tallystream_requests_waiting"
REQUESTS_RUNNING = "tallystream_requests_running"
OLDEST_WAIT = "tallystream_oldest_wait_seconds"
VIEW_UNREAD = "tallystream_view_unread_records"
VIEW_SILENCE = "tallystream_view_silence_seconds"
LISTENERS = "tallystream_listeners"
LISTENERS_DROPPED = "tallystream_listeners_dropped"

HTTP_REQUESTS = Counter("tallystream_http_requests", "Calls of the gateway.", ["method", "route", "status"])
HTTP_SECONDS = Histogram(
    "tallystream_http_seconds", "Of calls whose answer is no stream, by route.", ["route"], buckets=_FAST
)


def committed(outputs: Iterable[Output], seconds: float) -> None:
    """One transaction and what it wrote."""
    TRANSACTIONS.labels("committed").inc()
    TRANSACTION_SECONDS.observe(seconds)
    for out in outputs:
        RECORDS_WRITTEN.labels(out.topic).inc()
        if out.topic in LANES:
            BATCH_REQUESTS.observe(len({name[:3] for name in out.identities}))
        if out.topic == DEAD_LETTERS and (cause := Cause.of(out.headers)) is not None:
            DEAD_LETTER_RECORDS.labels(cause.stage, cause.code).inc()


def opened(marker: Opened) -> None:
    """A request that the batcher took."""
    REQUESTS_ROUTED.labels(marker.mode).inc()
    if marker.error is not None:
        REQUESTS_REFUSED.labels(marker.error.code).inc()


def sample_published(sample: Sample, lane: int) -> None:
    """What a worker drew; times only of what its engine began."""
    SAMPLES.labels(sample.role, sample.finish_reason).inc()
    SAMPLE_TOKENS.labels("prompt").inc(sample.prompt_tokens)
    SAMPLE_TOKENS.labels("completion").inc(sample.completion_tokens)
    if sample.cached:
        CACHED_SAMPLES.inc()
        return
    times = sample.timings
    SAMPLE_WAIT.labels(str(lane)).observe(max(0, times.started_at - times.queued_at) / 1000)
    if times.first_token_at is not None:
        FIRST_TOKEN.observe(max(0, times.first_token_at - times.started_at) / 1000)
        if sample.completion_tokens > 1:
            rest = max(0, times.finished_at - times.first_token_at) / 1000
            TOKEN_SECONDS.observe(rest / (sample.completion_tokens - 1))


def result_published(result: Result) -> None:
    """A result of the aggregator; only a final one has an age."""
    RESULTS.labels(result.mode, result.status).inc()
    if not result.status.terminal:
        return
    times = result.timings
    REQUEST_SECONDS.labels(result.mode).observe(max(0, times.finished_at - times.created_at) / 1000)
    TOKENS_SAVED.inc(result.usage.saved_tokens)
    if votes := sum(vote.count for vote in result.votes):
        AGREEMENT.observe(result.votes[0].count / votes)
    if result.confidence is not None:
        CONFIDENCE.observe(result.confidence)
    late = result.error is not None and result.error.code == "deadline_exceeded"
    if late or result.status is Status.PARTIAL_DONE:
        DEADLINES_MISSED.labels(result.status).inc()


def attempts_recorded(deliveries: Sequence[Delivery]) -> None:
    """Outcomes of callbacks, once they are durable."""
    for each in deliveries:
        DELIVERY_ATTEMPTS.labels(each.state, each.error.code if each.error else "").inc()
        if each.next_due_at is None:
            DELIVERY_AGE.labels(each.state).observe(max(0, each.updated_at - each.created_at) / 1000)
