"""What a load needs, from measured rates. Pure arithmetic: every figure that it begins with is an argument.

A plan is for the peak, with room to spare: ``busy`` is the share of a thing's limit that it is planned to be used to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pipeline.topics import (
    DELIVERIES,
    LANES,
    PROGRESS,
    REQUESTS,
    RESULTS,
    SAMPLES,
    declared_topics,
)

_DAY: Final = 86_400
_TOKEN_BYTES: Final = 4.5
"""Of English text, a token."""
_FRAME: Final = 350
"""Bytes of a record besides its texts: names, times, numbers, and its share of the record batch."""
_DELTA: Final = 110
"""Bytes of one piece of text on ``progress`` besides the text: about one a token, at most 20 a second and sample."""
_BATCHES: Final = "batches.0 … 5"


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked.

    Attributes:
        per_day: requests.
        peak: the busiest second over the mean one.
        samples: of a request, reviews among them.
        paths: different prompts of a request's samples.
        prompt_tokens, answer_tokens: of one sample, on average.
        callbacks: of a request.
    """

    per_day: float
    peak: float = 3.0
    samples: float = 3.0
    paths: int = 1
    prompt_tokens: float = 200.0
    answer_tokens: float = 150.0
    callbacks: float = 1.0

    @property
    def per_second(self) -> float:
        """At the peak."""
        return self.per_day / _DAY * self.peak


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured.

    Attributes:
        worker_tokens: that one worker draws in a second, all its rows together.
        core_ms: processor time in ms a request, by role, without the model; the broker's is Kafka's in all.
        busy: share of a limit that is planned with.
        broker_mb: that one broker writes in a second, its copies of other brokers' partitions among them.
        broker_disk_gb: of one broker.
        broker_partitions: that one broker leads or follows.
    """

    worker_tokens: float
    core_ms: Mapping[str, float]
    busy: float = 0.6
    broker_mb: float = 60.0
    broker_disk_gb: float = 2_000.0
    broker_partitions: int = 4_000


@dataclass(frozen=True, slots=True)
class Prices:
    """In one currency, whichever it is."""

    worker_hour: float = 0.0
    core_hour: float = 0.0
    disk_gb_month: float = 0.0


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic: bytes a request on average, MB/s written at the peak and GB kept, each of one copy."""

    name: str
    request_bytes: float
    mb_per_second: float
    kept_gb: float


@dataclass(frozen=True, slots=True)
class Limit:
    """A part of the plan, and at how many times the planned peak it is full."""

    what: str
    times: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What it takes.

    Attributes:
        partitions: of all topics together.
        cores: processor cores by role, the workers' models not counted.
        limits: the first to be full first.
        cost_per_day: of all that has a price.
    """

    per_second: float
    tokens_per_second: float
    workers: int
    shards: int
    cores: Mapping[str, float]
    topics: tuple[TopicLoad, ...]
    partitions: int
    brokers: int
    limits: tuple[Limit, ...]
    cost_per_day: float

    @property
    def mb_per_second(self) -> float:
        return sum(topic.mb_per_second for topic in self.topics)

    @property
    def kept_gb(self) -> float:
        return sum(topic.kept_gb for topic in self.topics)


def plan(demand: Demand, rates: Rates, *, replication: int = 3, prices: Prices = Prices()) -> Plan:
    """The smallest plan that holds the demand's peak within ``rates.busy``.

    A shard is at least a worker's, and no more than one aggregator's core can do. Brokers are never fewer than their
    copies.
    """
    rate = demand.per_second
    tokens = rate * demand.samples * demand.answer_tokens
    workers = max(1, math.ceil(tokens / (rates.worker_tokens * rates.busy)))
    # One thread serves a shard in the aggregator, so a core is a shard's limit.
    by_shard = 1_000 / rates.core_ms["aggregator"]
    shards = max(workers, math.ceil(rate / (by_shard * rates.busy)))
    topics = tuple(_topics(demand))
    mb, kept = (
        replication * sum(each.mb_per_second for each in topics),
        replication * sum(each.kept_gb for each in topics),
    )
    partitions = sum(spec.partitions for spec in declared_topics(shards, ""))
    brokers = max(
        replication,
        math.ceil(partitions * replication / rates.broker_partitions),
        math.ceil(mb / (rates.broker_mb * rates.busy)),
        math.ceil(kept / (rates.broker_disk_gb * rates.busy)),
    )
    cores = {role: max(0.1, rate * ms / 1_000 / rates.busy) for role, ms in rates.core_ms.items()}
    limits = [
        Limit(f"{workers} workers' tokens", workers * rates.worker_tokens / tokens),
        Limit(f"an aggregator's core for each of {shards} shards", shards * by_shard / rate),
        Limit(f"{brokers} brokers' writes", brokers * rates.broker_mb / mb),
        Limit(
            f"{brokers} brokers' partitions", brokers * rates.broker_partitions / (partitions * replication)
        ),
        Limit(f"{brokers} brokers' disks", brokers * rates.broker_disk_gb / kept),
    ]
    return Plan(
        rate,
        tokens,
        workers,
        shards,
        cores,
        topics,
        partitions,
        brokers,
        tuple(sorted(limits, key=lambda limit: limit.times)),
        workers * prices.worker_hour * 24
        + sum(cores.values()) * prices.core_hour * 24
        + kept * prices.disk_gb_month / 30,
    )


def _topics(demand: Demand) -> list[TopicLoad]:
    prompt, answer = demand.prompt_tokens * _TOKEN_BYTES, demand.answer_tokens * _TOKEN_BYTES
    result = _FRAME + demand.samples * (answer + 150)
    sizes = {
        REQUESTS: _FRAME + prompt,
        _BATCHES: _FRAME + demand.paths * prompt,
        SAMPLES: _FRAME + demand.samples * (_FRAME + answer),
        RESULTS: result,
        # Asked and answered: the body stands in both records.
        DELIVERIES: demand.callbacks * 2 * (_FRAME + result),
        PROGRESS: demand.samples * demand.answer_tokens * (_DELTA + _TOKEN_BYTES),
    }
    kept = {spec.name: int(spec.config.get("retention.ms", 0)) for spec in declared_topics(1, "")}
    kept[_BATCHES] = kept[LANES[0]]
    return [
        TopicLoad(
            name,
            size,
            demand.per_second * size / 1e6,
            demand.per_day / _DAY * size * kept[name] / 1_000 / 1e9,
        )
        for name, size in sizes.items()
    ]
