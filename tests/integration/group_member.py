"""A member of a transactional group as a process: takes a record, and publishes when it is told to."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from confluent_kafka import Message

from pipeline.kafka.records import Finished, Output, Place
from pipeline.kafka.transactions import TransactionalConsumer, place_of
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_logging


class Member:
    """Takes what it is given; a record is one task."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.seen: list[Message] = []
        self.consumer = TransactionalConsumer(settings, role="test", topics=[topic], listener=self)

    def assigned(self, places: Sequence[Place]) -> None: ...

    def revoking(self) -> None: ...

    def rewound(self, places: Sequence[Place]) -> None: ...

    def dropped(self, places: Sequence[Place]) -> None: ...

    def poll(self) -> None:
        for message in self.consumer.poll(0.05):
            self.consumer.track(message, 1)
            self.seen.append(message)

    def publish(self, topic: str, value: bytes, *, finishes: bool) -> bool:
        """Write to ``topic``, with or without the end of the record that was taken."""
        first = self.seen[0]
        finished = [Finished(place_of(first), first.offset() or 0, 0)] if finishes else []
        return self.consumer.publish([Output(topic, 0, b"k", value)], finished)


def main() -> None:
    """``IN OUT HOW``: HOW is ``finishing`` or ``between``, whether the publication ends the record."""
    source, target, how = sys.argv[1:]
    settings = load_settings()
    configure_logging(settings, "member")
    member = Member(settings, source)
    while not member.seen:
        member.poll()
    print("ready", flush=True)
    sys.stdin.readline()
    committed = member.publish(target, b"paused", finishes=how == "finishing")
    print("committed" if committed else "refused", flush=True)


if __name__ == "__main__":
    main()
