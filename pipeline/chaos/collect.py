"""Collects the evidence with means of its own: a plain read_committed consumer, and Avro by the schema files."""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from fastavro import parse_schema, schemaless_reader  # pyright: ignore[reportUnknownVariableType]
from fastavro.schema import fingerprint, to_parsing_canonical_form

from pipeline.chaos.evidence import Committed, Place, Record, Snapshot
from pipeline.errors import BrokerDownError
from pipeline.events import EVENT_TYPES, Event
from pipeline.topics import DEAD_LETTERS, DELIVERIES, LANES, READ_BY, REQUESTS, RESULTS, SAMPLES

_SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
_MARKER = b"\xc3\x01"
_TIMEOUT = 10.0
_PATIENCE = 60.0
_OFFSETS, _GROUP_METADATA = "__consumer_offsets", 2
_CODE = "tallystream.error.code"

AUDITED = (REQUESTS, *LANES, SAMPLES, RESULTS, DELIVERIES)


@dataclass(frozen=True, slots=True)
class Log:
    """What the topics hold; ``ends`` are the partitions' end offsets."""

    records: Sequence[Record]
    unreadable: Sequence[str]
    dead_letters: Sequence[str]
    ends: Mapping[Place, int]


class Decoder:
    """Avro single-object encoding: C3 01, the schema's CRC-64 fingerprint (little endian), the body."""

    def __init__(self) -> None:
        self._schemas: dict[bytes, tuple[type[Event], Any]] = {}
        types = {event.__name__: event for event in EVENT_TYPES}
        for file in _SCHEMAS.glob("*.avsc"):
            tree = json.loads(file.read_text("utf-8"))
            mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(tree), "CRC-64-AVRO"))
            plain = json.loads(file.read_text("utf-8"), object_hook=_without_logical_type)
            self._schemas[mark] = types[tree["name"]], parse_schema(plain)

    def decode(self, value: bytes) -> Event:
        """
        Raises:
            ValueError: it is no event.
        """
        if value[:2] != _MARKER or value[2:10] not in self._schemas:
            raise ValueError("not in single-object encoding of a known schema")
        kind, schema = self._schemas[value[2:10]]
        return msgspec.convert(schemaless_reader(io.BytesIO(value[10:]), schema, None), kind)


def read_log(bootstrap: str) -> Log:
    """Everything in the topics, read_committed, from their start to their end.

    Raises:
        BrokerDownError: they can not be read to their end.
    """
    decoder = Decoder()
    records: list[Record] = []
    unreadable: list[str] = []
    dead: list[str] = []
    consumer = _consumer(bootstrap)
    try:
        topics = consumer.list_topics(timeout=_TIMEOUT).topics
        places = [
            (topic, partition) for topic in (*AUDITED, DEAD_LETTERS) for partition in topics[topic].partitions
        ]
        ends = {place: _end(consumer, place) for place in places}
        for message in _all(consumer, {place: end for place, end in ends.items() if end}):
            topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
            where = f"{topic}[{partition}]@{offset}"
            if topic == DEAD_LETTERS:
                dead.append(f"{where} {_header(message, _CODE)}")
                continue
            try:
                event = decoder.decode(message.value() or b"")
            except Exception as error:  # whatever broken bytes lead a decoder into
                unreadable.append(f"{where}: {error}")
            else:
                records.append(Record(topic, partition, offset, message.timestamp()[1], event))
    except KafkaException as error:
        raise BrokerDownError(f"the audit can not read the topics: {error}") from error
    finally:
        consumer.close()
    return Log(records, unreadable, dead, ends)


def snapshot(bootstrap: str, app: str, shards: int) -> Snapshot | None:
    """What the four groups have committed now; nothing when Kafka does not answer.

    Asked of consumers: librdkafka's admin client can abort the process when a broker dies during its call.
    """
    positions: dict[Place, Committed] = {}
    for role, topics in READ_BY.items():
        consumer = _consumer(bootstrap, f"{app}-{role}")
        wanted = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(len(LANES) * shards if topic == REQUESTS else shards)
        ]
        try:
            found: list[Any] = consumer.committed(wanted, timeout=_TIMEOUT)
        except KafkaException:
            return None
        finally:
            consumer.close()
        for tp in found:
            if tp.error is not None:
                return None
            if tp.offset >= 0:
                positions[tp.topic, tp.partition] = Committed(
                    tp.offset, bitmaps(tp.offset, tp.metadata or "")
                )
    return Snapshot(round(time.time() * 1000), positions)


def handed_over(bootstrap: str, group: str) -> list[int]:
    """When (in ms) the group's partitions were given out anew: its metadata is rewritten each time.

    Read of Kafka's own topic: the key of such a record is the version 2 (int16) and the group's name.

    Raises:
        BrokerDownError: it can not be read to its end.
    """
    key = struct.pack(">hh", _GROUP_METADATA, len(group)) + group.encode()
    consumer = _consumer(bootstrap)
    try:
        partitions = consumer.list_topics(_OFFSETS, timeout=_TIMEOUT).topics[_OFFSETS].partitions
        ends = {
            (_OFFSETS, number): consumer.get_watermark_offsets(
                TopicPartition(_OFFSETS, number), timeout=_TIMEOUT
            )[1]
            for number in partitions
        }
        found = _all(consumer, {place: end for place, end in ends.items() if end})
        return [message.timestamp()[1] for message in found if message.key() == key]
    except KafkaException as error:
        raise BrokerDownError(f"the audit can not read {_OFFSETS}: {error}") from error
    finally:
        consumer.close()


def bitmaps(offset: int, metadata: str) -> dict[int, int]:
    """The documented form ``1;<offset - committed>:<bitmap in hex>,…``; anything else says nothing."""
    version, _, entries = metadata.partition(";")
    if version != "1" or not entries:
        return {}
    pairs = (entry.split(":") for entry in entries.split(","))
    return {offset + int(delta): int(bits, 16) for delta, bits in pairs}


def _consumer(bootstrap: str, group: str = "audit") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def _end(consumer: Consumer, place: Place) -> int:
    low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=_TIMEOUT)
    if low:  # what was deleted can not be audited
        raise BrokerDownError(f"{place[0]}[{place[1]}] begins at offset {low}: its start is deleted")
    return high


def _all(consumer: Consumer, ends: dict[Place, int]) -> Iterator[Message]:
    consumer.assign([TopicPartition(*place, 0) for place in ends])
    left = set(ends)
    moved = time.monotonic()
    while left:
        for message in consumer.consume(1_000, timeout=1.0):
            place = message.topic() or "", message.partition() or 0
            error = message.error()
            if error is None:
                moved = time.monotonic()
                yield message
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[place]:
                left.discard(place)
        if time.monotonic() - moved > _PATIENCE:
            raise BrokerDownError(f"the audit can not read to the end of {sorted(left)}")


def _header(message: Message, name: str) -> str:
    headers = cast("Sequence[tuple[str, bytes | None]]", message.headers() or ())
    return next((text.decode() for key, text in headers if key == name and text), "")


def _without_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != "logicalType"}
