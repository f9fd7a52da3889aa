"""What must be true of every request, whatever happened to the processes: counted, never taken on trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pipeline.events import Batch, Delivery, DeliveryState, Progress, ProgressKind, Result, Sample
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from pipeline.topics import LANES, PROGRESS
from tests.integration.asker import Asker

TaskName = tuple[str, int, int]


def once_each(asker: Asker, asked: Collection[str]) -> dict[str, Result]:
    """Each request has one final result, each sample is there once, and every sample that counted exists."""
    finals = asker.finals(asked)
    assert set(Counter(r.request_id for r in asker.results() if r.status.terminal).values()) == {1}
    samples = Counter((s.request_id, s.run, s.sample_index) for s in asker.of(Sample))
    assert set(samples.values()) == {1}
    for result in finals.values():
        for chain in result.reasoning:
            assert samples[result.request_id, result.run, chain.sample_index] == 1
    return finals


def batched_once(settings: Settings, asked: Collection[str]) -> None:
    """No batch holds a task that another holds."""
    codec, held = Codec(), Counter[TaskName]()
    for message in read_back(settings, [(lane, shard) for lane in LANES for shard in range(settings.shards)]):
        batch = codec.decode(value_of(message))
        assert isinstance(batch, Batch)
        held.update((g.request_id, g.run, t.sample_index) for g in batch.groups for t in g.tasks)
    assert {request_id for request_id, _, _ in held} >= set(asked)
    assert set(held.values()) == {1}


def begun(settings: Settings, asked: Collection[str], first_word: str) -> Counter[TaskName]:
    """How often each task was begun: every time it says its first word again."""
    codec, begun = Codec(), Counter[TaskName]()
    for message in read_back(settings, [(PROGRESS, shard) for shard in range(settings.shards)]):
        event = codec.decode(value_of(message))
        assert isinstance(event, Progress)
        if event.kind is ProgressKind.TOKENS and event.request_id in asked and event.text:
            begun[event.request_id, event.run, event.sample_index or 0] += event.text.startswith(first_word)
    return begun


def recorded_callbacks(asker: Asker, asked: Collection[str]) -> None:
    """Wait until each of these has a delivery that is recorded as delivered; each has one identity."""
    asker.until(
        lambda: (
            set(asked) <= {d.request_id for d in asker.of(Delivery) if d.state is DeliveryState.DELIVERED}
        ),
        "every callback to be recorded as delivered",
    )
    identities = {(d.request_id, d.run, d.revision) for d in asker.of(Delivery)}
    assert len({d.delivery_id for d in asker.of(Delivery)}) == len(identities)
