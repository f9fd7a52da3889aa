"""A Kafka that has not come back whole is told from one that has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pipeline.chaos.mending import Mender
from pipeline.kafka.local_broker import LocalBroker

COMPLAINT = (
    "ERROR The state machine of the coordinator x-4 is out of sync with the underlying log. And so on.\n"
)


class Nodes:
    """Two nodes of which nothing is there but their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pids = folder, {1: 11, 2: 12}
        self.done: list[str] = []
        for node in self.pids:
            (folder / f"node-{node}").mkdir()
            self.log(node, "all is well\n")

    def log(self, node: int, line: str) -> None:
        with (self.folder / f"node-{node}" / "kafka.log").open("a") as log:
            log.write(line)

    def kill(self, node: int) -> None:
        self.done.append(f"kill {node}")

    def start(self) -> None:
        self.done.append("start")


def test_a_node_is_started_again_once_for_what_it_has_complained_of(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    mender = Mender(cast(LocalBroker, cast(Any, nodes)))
    assert not mender.mend()
    nodes.log(2, COMPLAINT * 3)
    assert mender.mend() and not mender.mend()
    assert (nodes.done, mender.restarts) == (["kill 2", "start"], 1)
    nodes.log(2, COMPLAINT)
    assert mender.mend()
    assert mender.restarts == 2


def test_a_kafka_of_somebody_else_is_left_alone() -> None:
    assert not Mender(None).mend()
