"""Reading results: what stands on the topic for a request, revision by revision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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


def published_of(settings: Settings, codec: Codec, request_id: str) -> list[Result]:
    """All results of one request, oldest run and revision first; compaction may have left only the last one.

    Raises:
        BrokerDownError: it can not be read.
    """
    key, found = request_id.encode(), dict[tuple[int, int], Result]()
    for message in read_back(settings, [(RESULTS, shard_of(request_id, settings.shards))]):
        if message.key() != key:
            continue
        try:
            event = codec.decode(value_of(message))
        except DecodeError:
            continue
        if isinstance(event, Result) and event.request_id == request_id:
            found[event.run, event.revision] = event
    return [found[identity] for identity in sorted(found)]
