"""Ask from a system of your own: python produce_request.py QUESTION (pip install confluent-kafka fastavro)."""

import io
import json
import os
import sys
import uuid
import zlib
from pathlib import Path

from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form

SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "InferenceRequest.avsc").read_text())
BOOTSTRAP = os.environ.get("TALLYSTREAM_BOOTSTRAP", "localhost:9092")
SHARDS = int(os.environ.get("TALLYSTREAM_SHARDS", "1"))  # as many as the pipeline has


def encode(request: dict) -> bytes:
    """Avro single-object encoding: C3 01, the schema's fingerprint (little endian), the body."""
    crc = fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO")  # hex, little endian already
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(SCHEMA), request)
    return b"\xc3\x01" + bytes.fromhex(crc) + out.getvalue()


if __name__ == "__main__":
    prompt = " ".join(sys.argv[1:]) or "What is 7 + 5?"
    request = {"request_id": str(uuid.uuid4()), "prompt": prompt, "mode": "standard", "priority": 2}
    key, refused = request["request_id"].encode(), []
    partition = request["priority"] * SHARDS + zlib.crc32(key) % SHARDS
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    producer.produce("requests", encode(request), key, partition, lambda error, _: refused.append(error))
    if producer.flush(30) or refused != [None]:
        sys.exit(f"Kafka at {BOOTSTRAP} did not take the request: {refused}")
    print(request["request_id"])
