"""Reading results: what stands on the topic for a request, revision by revision."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pipeline.errors import DecodeError
from pipeline.events import Result
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from pipeline.topics import RESULTS, shard_of


def published(settings: Settings, codec: Codec, shards: Sequence[int], since_ms: int = 0) -> Iterator[Result]:
    """Every result that these shards hold now; somebody else's records are passed over.

    Raises:
        BrokerDownError: it can not be read.
    """
    for message in read_back(settings, [(RESULTS, shard) for shard in shards], since_ms=since_ms):
        try:
            event = codec.decode(value_of(message))
        except DecodeError:
            continue
        if isinstance(event, Result):
            yield event


def published_of(settings: Settings, codec: Codec, request_ids: Collection[str]) -> list[Result]:
    """All results of these requests, oldest run and revision first; compaction may have left only the last one.

    Raises:
        BrokerDownError: it can not be read.
    """
    keys, found = {each.encode() for each in request_ids}, dict[tuple[int, int, str], Result]()
    shards = sorted({shard_of(each, settings.shards) for each in request_ids})
    for message in read_back(settings, [(RESULTS, shard) for shard in shards]):
        if message.key() not in keys:
            continue
        try:
            event = codec.decode(value_of(message))
        except DecodeError:
            continue
        if isinstance(event, Result) and event.request_id in request_ids:
            found[event.run, event.revision, event.request_id] = event
    return [found[identity] for identity in sorted(found)]
