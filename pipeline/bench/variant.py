"""A real agent with one thing changed, for comparison: ``python -m pipeline.bench.variant VARIANT AGENT``.

Nothing that is shipped imports this module.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from confluent_kafka import TopicPartition

from pipeline.kafka import fenced_sink, transactions
from pipeline.kafka.clients import plain_producer, write
from pipeline.kafka.kept_consumers import consumers, keeping
from pipeline.kafka.records import Output
from pipeline.kafka.transactional_producer import TransactionalProducer
from pipeline.settings import Settings

DURATIONS = "TALLYSTREAM_BENCH_DURATIONS"
"""Environment variable: the file for the durations of a timed worker's transactions."""


class Variant(StrEnum):
    ACKS = "acks"
    """Idempotent produces that are waited for, and plain offset commits: at least once."""
    TIMED = "timed"
    """As shipped, but the worker writes down how long each publication took."""


VARIANT_ROLES = {
    Variant.ACKS: ("batcher", "worker", "aggregator", "webhook"),
    Variant.TIMED: ("worker",),
}


def change(variant: Variant) -> None:
    """Patch this process."""
    match variant:
        case Variant.ACKS:
            _replace(fenced_sink, "TransactionalProducer", _AckedProducer)
            _replace(transactions, "TransactionalProducer", _AckedProducer)
            _replace(transactions, "group_consumer", keeping(transactions.group_consumer))
        case Variant.TIMED:
            _replace(TransactionalProducer, "commit", _timed(TransactionalProducer.commit))


def _replace(owner: ModuleType | type, name: str, value: object) -> None:
    getattr(owner, name)  # what has moved must not stay as it was unnoticed
    setattr(owner, name, value)


class _AckedProducer:
    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._producer = plain_producer(settings, linger_ms=0)

    def fence(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...

    def commit(
        self, outputs: Sequence[Output], offsets: Sequence[TopicPartition] = (), group: object = None
    ) -> None:
        for out in outputs:
            write(self._producer, out)
        self._producer.flush()
        if offsets:
            consumers[-1].commit(offsets=list(offsets), asynchronous=True)


def _timed(commit: Any) -> Any:
    file = Path(os.environ[DURATIONS]).open("a", buffering=1)  # noqa: SIM115 - as long as the process lives

    def timed(self: Any, outputs: Sequence[Output], *args: Any) -> None:
        began = time.perf_counter()
        commit(self, outputs, *args)
        if outputs:
            file.write(f"{1000 * (time.perf_counter() - began):.3f}\n")

    return timed


if __name__ == "__main__":
    change(Variant(sys.argv[1]))
    module = sys.argv[2]
    del sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
