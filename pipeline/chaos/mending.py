"""Mends a Kafka that did not come back whole after a ``kill -9``.

Kafka 4.4.0, alone and started again at once, sometimes keeps one of its coordinators from serving: a group coordinator
takes its partition of ``__consumer_offsets`` for empty, or a transaction coordinator says for ever that it is loading.
Every client of that coordinator then waits until the node is started anew. That is a fault of the dependency, and the
pipeline waits; so when it does not recover, Kafka is asked by clients that have nothing to do with the pipeline, and
the run notes how often it came to that. So it is with transactions that Kafka has forgotten (``hanging``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pipeline.chaos.hanging import end_hanging
from pipeline.chaos.probe import serves
from pipeline.errors import BrokerDownError
from pipeline.kafka.local_broker import LocalBroker


class Mender:
    """Looks at a local Kafka.

    Attributes:
        restarts: nodes that were started again.
        hanging: transactions that Kafka had forgotten, and that were ended.
    """

    def __init__(self, broker: LocalBroker | None, serves: Callable[[str], bool] = serves) -> None:
        self._broker, self._serves = broker, serves
        self.restarts = self.hanging = 0

    def mend(self) -> bool:
        """Start one node after another again until Kafka serves; whether there was need of it."""
        broker = self._broker
        if broker is None or self._serves(broker.bootstrap):
            return False
        for node in list(broker.pids):
            broker.kill(node)
            broker.start()
            self.restarts += 1
            if self._serves(broker.bootstrap):
                break
        return True

    def end_hanging(self) -> bool:
        """End what Kafka has forgotten; whether there was any."""
        ended = 0
        with suppress(BrokerDownError):
            ended = len(end_hanging(self._broker)) if self._broker else 0
        self.hanging += ended
        return ended > 0
