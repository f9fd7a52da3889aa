"""A gateway's view that is lost: how long it takes to have it again, beside a consumer that only decodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import TopicPartition

from pipeline.admin import create_topics
from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure
from pipeline.bench.parts import Say
from pipeline.bench.record_sizes import records
from pipeline.bench.rows import Bound, Goal, Row
from pipeline.events import Result
from pipeline.ids import new_request_id
from pipeline.kafka.clients import assigned_consumer, plain_producer, poll_many, value_of, write
from pipeline.kafka.connect import make_codec
from pipeline.kafka.local_broker import LocalBroker
from pipeline.kafka.places import partitions_of
from pipeline.kafka.records import Output
from pipeline.settings import Settings
from pipeline.store.origin import TOPICS
from pipeline.store.store import Store
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS, RESULTS, SAMPLES, request_partition, shard_of

_LEAST = 0.1
_LOT = 500


def rebuilds(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Finished requests with their markers, samples and results; the file is removed before each round."""
    tasks = max(effort.backlogs)
    took, rates, shares = list[float](), list[float](), list[float]()
    with _written(settings, tasks, say) as (kafka, count):
        for _ in range(effort.repeats):
            say("only decoding")
            decoded = _decoded(kafka, count)
            say("building the view")
            built = asyncio.run(_built(kafka))
            took.append(built)
            rates.append(count / built)
            shares.append(decoded / built)
    name = f"view from {tasks:,} results"
    yield Row(f"{name}, {count:,} records in all", figure(took), "s")
    yield Row(f"{name}: records a second", figure(rates), "/s")
    reason = "each row is written with its indexes"
    yield Row(
        f"{name} / a consumer that only decodes", figure(shares), "×", Goal(Bound.AT_LEAST, _LEAST, reason)
    )


@contextmanager
def _written(settings: Settings, tasks: int, say: Say) -> Generator[tuple[Settings, int]]:
    """A Kafka of its own with the records of so many tasks, and their number."""
    with LocalBroker(settings.home) as broker:
        settings = settings.model_copy(update={"bootstrap": broker.bootstrap, "app": "bench"})
        create_topics(settings)
        say(f"writing the records of {tasks:,} tasks")
        producer, codec, count = plain_producer(settings), make_codec(settings), 0
        now = now_ms()
        made = records(now=now, limits=settings.limits)
        for _ in range(tasks):
            asked, *rest = made.of(new_request_id(now))
            key, shards = asked.request_id.encode(), settings.shards
            shard = shard_of(asked.request_id, shards)
            places = (
                (REQUESTS, request_partition(asked.request_id, asked.priority, shards), asked),
                *((RESULTS if isinstance(each, Result) else SAMPLES, shard, each) for each in rest),
            )
            for topic, partition, event in places:
                write(producer, Output(topic, partition, key, codec.encode(event)))
            count += len(places)
            producer.poll(0)
        producer.flush()
        yield settings, count


def _decoded(settings: Settings, count: int) -> float:
    """Seconds."""
    codec, began, left = make_codec(settings), time.perf_counter(), count
    consumer = assigned_consumer(settings, enable_partition_eof=False)
    try:
        consumer.assign(
            [TopicPartition(*place, 0) for place in partitions_of(consumer, TOPICS, where=settings.bootstrap)]
        )
        while left:
            for message in poll_many(consumer, _LOT, 1.0):
                codec.decode(value_of(message))
                left -= 1
    finally:
        consumer.close()
    return time.perf_counter() - began


async def _built(settings: Settings) -> float:
    """Seconds from an empty folder until the view has caught up."""
    with TemporaryDirectory(prefix="tallystream-view-") as folder:
        began = time.perf_counter()
        async with Store(settings, make_codec(settings), Path(folder)) as store:
            await store.wait_ready()
            return time.perf_counter() - began
