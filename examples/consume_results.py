"""Print results until one is final: python consume_results.py REQUEST_ID [SECONDS]."""

import io
import json
import os
import sys
import time
import uuid
from pathlib import Path

from confluent_kafka import Consumer
from fastavro import parse_schema, schemaless_reader

SCHEMA = parse_schema(json.loads((Path(__file__).parents[1] / "schemas" / "Result.avsc").read_text()))
wanted, deadline = sys.argv[1], time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 300)
config = {"group.id": f"example-{uuid.uuid4()}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
config |= {"bootstrap.servers": os.environ.get("TALLYSTREAM_BOOTSTRAP", "localhost:9092")}
consumer = Consumer(config | {"isolation.level": "read_committed"})
consumer.subscribe(["results"])
while time.monotonic() < deadline:
    message = consumer.poll(0.5)
    if message is None or message.error() or (message.value() or b"")[:2] != b"\xc3\x01":
        continue
    result = schemaless_reader(io.BytesIO(message.value()[10:]), SCHEMA)
    votes = {vote["answer"]: vote["count"] for vote in result["votes"]}
    print(result["request_id"], result["status"], result["answer"], votes, flush=True)
    if result["request_id"] == wanted and result["status"] != "first_answer":
        sys.exit(0)
sys.exit(f"no final result of {wanted} in time")
