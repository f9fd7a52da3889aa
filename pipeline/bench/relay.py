"""The limit: a bare relay of four hops, each a process, each transactional: 1 → 1 → 3 → 1 → 1 records a request."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

from pipeline.bench.kafka_answers import KafkaAnswers
from pipeline.bench.load import Load
from pipeline.bench.question import SAMPLES
from pipeline.bench.record_sizes import record_sizes
from pipeline.bench.relay_hop import LAST, topic_of
from pipeline.kafka.clients import admin_client, plain_producer
from pipeline.kafka.connect import make_codec
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings
from pipeline.stack import environment
from pipeline.supervisor import ProcessSpec, Supervisor
from pipeline.telemetry import now_ms

_HOPS = 4


class Relay:
    """Sends to the first topic, reads the last."""

    name = "bare relay"

    def __init__(self, settings: Settings, request_bytes: int) -> None:
        self._producer = plain_producer(settings)
        self._value = bytes(request_bytes - 1) + LAST
        self._answers = KafkaAnswers(settings, topic_of(_HOPS), 1)

    def send(self, request_id: str) -> None:
        self._producer.produce(topic_of(0), self._value, request_id.encode(), 0)
        self._producer.poll(0)

    def answered(self, timeout: float) -> Sequence[str]:
        return self._answers.read(timeout)

    def close(self) -> None:
        self._answers.close()


@contextmanager
def running_relay(settings: Settings) -> Generator[Load]:
    """A relay on a Kafka of its own, and the load on it."""
    with LocalBroker(settings.home) as broker:
        settings = settings.model_copy(update={"bootstrap": broker.bootstrap, "app": "relay"})
        topics = [NewTopic(topic_of(hop), 1, 1) for hop in range(_HOPS + 1)]
        admin: Any = admin_client(settings)
        for made in admin.create_topics(topics).values():
            made.result()
        sizes = record_sizes(make_codec(settings), now=now_ms(), limits=settings.limits)
        out = [(1, sizes.batch), (SAMPLES, sizes.sample), (1, sizes.result), (1, sizes.result)]
        specs = [
            ProcessSpec(
                f"relay-{hop}",
                (sys.executable, "-m", "pipeline.bench.relay_hop", str(hop), str(copies), str(size)),
                environment(settings),
            )
            for hop, (copies, size) in enumerate(out)
        ]
        with Supervisor(specs, lambda _: None):
            relay = Relay(settings, sizes.request)
            try:
                with Load(relay) as load:
                    yield load
            finally:
                relay.close()
