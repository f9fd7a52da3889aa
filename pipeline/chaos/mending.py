"""Starts a Kafka node again whose group coordinator did not load after a ``kill -9``.

Kafka 4.4.0 sometimes comes back so: it takes a partition of ``__consumer_offsets`` that holds thousands of records for
an empty one, notes that its state "is out of sync with the underlying log", loads it again, and again finds nothing.
Every member that joins a group of that partition then gets an unknown server error, until the node is started anew.
That is a fault of the dependency, and the pipeline waits; the run notes how often it came to that.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.kafka.local_broker import LocalBroker

_SYMPTOM = "is out of sync with the underlying log"


class Mender:
    """Looks at the logs of a local Kafka's nodes.

    Attributes:
        restarts: nodes that were started again.
    """

    def __init__(self, broker: LocalBroker | None) -> None:
        self._broker = broker
        self._seen: dict[int, int] = {}
        self.restarts = 0

    def mend(self) -> bool:
        """Start every node again that has complained since the last look; whether there was one."""
        broker = self._broker
        if broker is None or broker.folder is None:
            return False
        ill = [node for node in broker.pids if self._complained(broker.folder, node)]
        for node in ill:
            broker.kill(node)
        if ill:
            broker.start()
            self.restarts += len(ill)
        return bool(ill)

    def _complained(self, folder: Path, node: int) -> bool:
        log = folder / f"node-{node}" / "kafka.log"
        count = log.read_text(errors="replace").count(_SYMPTOM) if log.exists() else 0
        before, self._seen[node] = self._seen.get(node, 0), count
        return count > before
