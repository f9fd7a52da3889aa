"""What the watchdog measures of a process's partitions, as metrics, read when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline.health import still_for
from pipeline.ledger import Ledger
from pipeline.metrics import KAFKA_REACHABLE, PARTITION_LAG, PARTITION_STILL


class PartitionMetrics(Collector):
    """Lag, and for how long a partition with lag has not moved."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def collect(self) -> Iterable[Metric]:
        state, now = self._ledger.state, time.monotonic()
        labels = ["topic", "partition"]
        lag = GaugeMetricFamily(PARTITION_LAG, "Records before the end of an owned partition.", labels=labels)
        still = GaugeMetricFamily(
            PARTITION_STILL, "Since an owned partition with lag has moved; 0 without lag.", labels=labels
        )
        for each in state.partitions or ():
            if each.position < 0:
                continue
            place = [each.topic, str(each.partition)]
            lag.add_metric(place, each.lag)
            still.add_metric(place, max(0.0, still_for(each, state, now)) if each.lag else 0.0)
        reachable = GaugeMetricFamily(
            KAFKA_REACHABLE, "Whether Kafka answered the last question.", value=float(state.reachable)
        )
        return lag, still, reachable


@contextmanager
def partitions_told(ledger: Ledger) -> Generator[None]:
    """Have them among the process's metrics while the block runs."""
    collector = PartitionMetrics(ledger)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)
