"""The callback of a batch that has ended: a delivery that waits, which the webhook agent takes up. Pure."""

from __future__ import annotations

from typing import Final

from pipeline.delivery.asked import ASKED
from pipeline.delivery.openai_event import event_body
from pipeline.delivery.payload import delivery_id, due_now
from pipeline.events import Delivery
from pipeline.gateway.openai.batch_record import Batch
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Output
from pipeline.topics import DELIVERIES, shard_of

_EVENT: Final = "batch."


def told(batch: Batch, shards: int, codec: Codec, now_ms: int) -> Output | None:
    """The record of the callback; ``None`` when nobody asked for one.

    Args:
        batch: as it has ended.
    """
    callback = batch.callback
    if callback is None:
        return None
    of = (batch.id, 0, 0)
    identity = delivery_id(*of, callback.url)
    event = f"{_EVENT}{batch.status}"
    body = event_body(event, identity, batch.id, 1000 * (batch.ended_at or 0))
    delivery = due_now(identity, of, callback, event, body, now_ms)
    shard = shard_of(batch.id, shards)
    return Output(DELIVERIES, shard, identity.encode(), codec.encode(delivery), (), ASKED)


def tells_of_a_batch(delivery: Delivery) -> bool:
    """Whether a delivery is of this kind, so that it names a batch and no task."""
    return delivery.event.startswith(_EVENT)
