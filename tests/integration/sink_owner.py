"""An owner of a fenced sink as a process: opens it, and emits when it is told to. For tests that pause it."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from confluent_kafka import Message

from pipeline.errors import FencedError
from pipeline.kafka.clients import value_of
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.records import Identity, Output, Place
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_logging

SOURCE = "input", 0


def identify(message: Message) -> Iterable[Identity]:
    yield ("thing", value_of(message).decode())


def thing(place: Place, name: str) -> Output:
    return Output(*place, b"k", name.encode(), (("thing", name),))


def open_sink(settings: Settings, place: Place) -> FencedSink:
    return FencedSink.open(settings, source=SOURCE, since_ms=1, reach=[place], identify=identify)


def say(word: str) -> None:
    print(word, flush=True)


def main() -> None:
    """``TOPIC WHERE``: waits for a line ``before`` the transaction, or ``within`` it, before its commit."""
    topic, where = sys.argv[1:]
    settings = load_settings()
    configure_logging(settings, "owner")
    sink = open_sink(settings, (topic, 0))
    if where == "within":
        producer = sink._producer._producer

        class Waiting:
            """The producer, but waits once everything is written and only the commit is left."""

            def __getattr__(self, name: str) -> object:
                return getattr(producer, name)

            def commit_transaction(self, timeout: float) -> None:
                producer.flush(30)
                say("ready")
                sys.stdin.readline()
                producer.commit_transaction(timeout)

        sink._producer._producer = Waiting()  # pyright: ignore[reportAttributeAccessIssue]
    else:
        say("ready")
        sys.stdin.readline()
    try:
        written = sink.emit([thing((topic, 0), "x"), thing((topic, 0), "mine")])
    except FencedError:
        say("fenced")
    else:
        say(f"wrote {written}")


if __name__ == "__main__":
    main()
