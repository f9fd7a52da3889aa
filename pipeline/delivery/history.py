"""What ``deliveries`` says now: the newest record of each delivery, and what that makes of each endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pipeline.delivery.guard import endpoint_of
from pipeline.delivery.standing import NOTHING_KNOWN, Standing, told_by
from pipeline.errors import DecodeError
from pipeline.events import Delivery, DeliveryState
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from pipeline.topics import DELIVERIES

RecordPlace = tuple[int, int]
"""Shard and offset on deliveries."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest record of a delivery, without its body.

    Attributes:
        size: bytes of the body.
    """

    delivery: Delivery
    place: RecordPlace
    size: int

    @property
    def endpoint(self) -> str:
        return endpoint_of(self.delivery.url)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which deliveries are meant; what is empty or ``None`` does not matter.

    Attributes:
        ids: delivery ids.
        endpoint: host:port, or a URL of it.
        code: of the last error.
        since: updated at or after this time, ms.
        until: updated before this time, ms.
    """

    ids: frozenset[str] = frozenset()
    state: DeliveryState | None = None
    endpoint: str | None = None
    request: str | None = None
    code: str | None = None
    since: int | None = None
    until: int | None = None

    def takes(self, kept: Kept) -> bool:
        delivery = kept.delivery
        code = delivery.error.code if delivery.error else None
        return (
            (not self.ids or delivery.delivery_id in self.ids)
            and self.state in (None, delivery.state)
            and (self.endpoint is None or kept.endpoint == endpoint_named(self.endpoint))
            and self.request in (None, delivery.request_id)
            and self.code in (None, code)
            and (self.since is None or delivery.updated_at >= self.since)
            and (self.until is None or delivery.updated_at < self.until)
        )


@dataclass(slots=True)
class Endpoint:
    """An endpoint as the newest records of its deliveries tell it.

    Attributes:
        counts: deliveries by state.
        standings: by shard, for each has an owner that judges by what it has sent itself.
        newest: by shard, the record that the standing is from.
        last: the newest of all.
    """

    name: str
    counts: Counter[DeliveryState] = field(default_factory=Counter[DeliveryState])
    standings: dict[int, Standing] = field(default_factory=dict[int, Standing])
    newest: dict[int, Kept] = field(default_factory=dict[int, Kept])
    last: Kept | None = None

    def add(self, kept: Kept) -> None:
        self.counts[kept.delivery.state] += 1
        shard, standing = kept.place[0], told_by(kept.delivery)
        if standing is None:
            return
        if standing.as_of >= self.standings.get(shard, NOTHING_KNOWN).as_of:
            self.standings[shard], self.newest[shard] = standing, kept
        if self.last is None or kept.delivery.updated_at >= self.last.delivery.updated_at:
            self.last = kept

    @property
    def failing_since(self) -> int | None:
        """ms; None: no shard's deliveries fail."""
        times = [each.failing_since for each in self.standings.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def disabled(self) -> tuple[int, ...]:
        """The shards whose deliveries it gets no more."""
        return tuple(sorted(shard for shard, each in self.standings.items() if each.disabled))


def endpoint_named(text: str) -> str:
    """The endpoint that a person means: host:port as listed, or any URL of it."""
    return endpoint_of(text) if "://" in text else text


def read_records(settings: Settings, codec: Codec) -> Iterator[tuple[RecordPlace, Delivery]]:
    """Every record of ours that is there now, each shard in order.

    Raises:
        BrokerDownError: it can not be read.
    """
    for message in read_back(settings, [(DELIVERIES, shard) for shard in range(settings.shards)]):
        try:
            event = codec.decode(value_of(message))
        except DecodeError:
            continue
        if isinstance(event, Delivery):
            yield (message.partition() or 0, message.offset() or 0), event


def newest(records: Iterable[tuple[RecordPlace, Delivery]]) -> dict[str, Kept]:
    """The newest record of each delivery, in the order of their places."""
    found: dict[str, Kept] = {}
    for place, delivery in records:
        found[delivery.delivery_id] = Kept(replace(delivery, body=b""), place, len(delivery.body))
    return dict(sorted(found.items(), key=lambda item: item[1].place))


def endpoints(kept: Iterable[Kept]) -> dict[str, Endpoint]:
    """Every endpoint, by name. In order of place, so that of two records of one millisecond the later counts."""
    found: dict[str, Endpoint] = {}
    for each in kept:
        found.setdefault(each.endpoint, Endpoint(each.endpoint)).add(each)
    return dict(sorted(found.items()))
