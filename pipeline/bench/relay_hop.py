"""One hop of the bare relay: ``python -m pipeline.bench.relay_hop HOP COPIES SIZE…``.

Reads ``relay.HOP`` and writes ``relay.HOP+1`` in transactions, nothing else. A record that is the last of its
request's leads to COPIES records of SIZE bytes, the others to none; so three samples become one result.
"""

from __future__ import annotations

import signal
import sys
import threading

from confluent_kafka import TopicPartition

from pipeline.kafka.clients import group_consumer, poll_many, transactional_producer
from pipeline.settings import load_settings

MORE, LAST = b"\0", b"\1"
_MOST = 500
_WAIT = 0.1


def topic_of(hop: int) -> str:
    """What a hop reads."""
    return f"relay.{hop}"


def main() -> None:
    hop, copies, size = (int(argument) for argument in sys.argv[1:])
    settings = load_settings()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    consumer = group_consumer(settings, f"relay-{hop}", f"relay-{hop}")
    producer = transactional_producer(settings, f"relay-{hop}")
    producer.init_transactions()
    consumer.subscribe([topic_of(hop)])
    values = [bytes(size - 1) + (LAST if copy == copies - 1 else MORE) for copy in range(copies)]
    while not stop.is_set():
        messages = [message for message in poll_many(consumer, _MOST, _WAIT) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            if (message.value() or b"").endswith(LAST):
                for value in values:
                    producer.produce(topic_of(hop + 1), value, message.key(), 0)
        position = TopicPartition(topic_of(hop), 0, (messages[-1].offset() or 0) + 1)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
        producer.commit_transaction()
    consumer.close()


if __name__ == "__main__":
    main()
