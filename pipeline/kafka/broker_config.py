"""The ``server.properties`` of each node of a local Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMMON = Path(__file__).resolve().parents[2] / "ops" / "kafka" / "server.properties"

_SESSION_MS = 3_000
"""One of several that was killed may come back once its old session has ended."""
_SESSION_ALONE_MS = 30_000
"""Nobody takes over from a node alone: a stall of the machine shall not leave its partitions without a leader."""


@dataclass(frozen=True, slots=True)
class Node:
    """One combined broker and controller; everything listens on 127.0.0.1."""

    id: int
    port: int
    controller_port: int
    folder: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def voter(self) -> str:
        """As a controller of the quorum."""
        return f"{self.id}@127.0.0.1:{self.controller_port}"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def controller_properties(self) -> Path:
        return self.folder / "controller.properties"

    @property
    def crashed(self) -> bool:
        """It has run, and did not end well."""
        return (self.data / "__cluster_metadata-0").exists() and not (
            self.data / ".kafka_cleanshutdown"
        ).exists()

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    @property
    def data(self) -> Path:
        return self.folder / "data"


def write_properties(node: Node, nodes: Sequence[Node], more: Mapping[str, str] | None = None) -> None:
    """Write the node's file: the common part, then its id, ports, folder and the cluster's replication.

    Args:
        more: further properties, which win; a name that ends in ``+`` is added to what is there, after a comma.
    """
    copies = len(nodes)
    # Acknowledged means: still there after any one node is lost.
    in_sync = min(2, copies)
    voters = ",".join(each.voter for each in nodes)
    own = {
        "node.id": node.id,
        "broker.session.timeout.ms": _SESSION_MS if copies > 1 else _SESSION_ALONE_MS,
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "controller.quorum.voters": voters,
        "log.dirs": node.data,
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
    for name, value in (more or {}).items():
        whole = name.removesuffix("+")
        own[whole] = f"{own[whole]},{value}" if name.endswith("+") else value
    lines = [f"{name}={value}" for name, value in own.items()]
    node.properties.write_text(_COMMON.read_text() + "\n" + "\n".join(lines) + "\n")


def write_controller_properties(node: Node) -> None:
    """Write a file by which a node is its cluster's only controller, and no broker; it gives a broker little time."""
    own = {
        "process.roles": "controller",
        "node.id": node.id,
        "listeners": f"CONTROLLER://127.0.0.1:{node.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": node.voter,
        "log.dirs": node.data,
        "broker.session.timeout.ms": 500,
    }
    node.controller_properties.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
