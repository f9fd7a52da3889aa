"""Ends the transactions that Kafka has forgotten, with Kafka's own tool.

A transaction can stay open in the log though its coordinator takes it for ended: Kafka 4.4.0 leaves the marker out of
a partition that has no leader at that moment (decision 0019). Nobody will ever end it: readers stop before it, and a
group's offset in it is never told. Kafka calls this a hanging transaction and brings a tool that finds it and ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.kafka.local_broker import LocalBroker

_TOOL = "org.apache.kafka.tools.TransactionsCommand"


@dataclass(frozen=True, slots=True)
class Hanging:
    """Where in the log a forgotten transaction begins."""

    topic: str
    partition: int
    offset: int


def end_hanging(broker: LocalBroker) -> list[Hanging]:
    """Abort what hangs; blocking, about two seconds when nothing does.

    Raises:
        BrokerDownError: the tool can not reach Kafka, or what it found has ended meanwhile.
    """
    ended: list[Hanging] = []
    for node in list(broker.pids):
        for found in _find(broker, node):
            where = (f"--topic={found.topic}", f"--partition={found.partition}")
            _transactions(broker, "abort", *where, f"--start-offset={found.offset}")
            ended.append(found)
    return ended


def _find(broker: LocalBroker, node: int) -> list[Hanging]:
    """The tool prints a table: its names, then a line for each transaction, separated by tabs."""
    # However young: the tool asks the coordinator after the partition, so what it knows of is not taken for hanging.
    table = _transactions(broker, "find-hanging", f"--broker-id={node}", "--max-transaction-timeout=0")
    names, *lines = [[cell.strip() for cell in line.split("\t")] for line in table.splitlines() if line]
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    return [Hanging(row["Topic"], int(row["Partition"]), int(row["StartOffset"])) for row in rows]


def _transactions(broker: LocalBroker, *arguments: str) -> str:
    return broker.tool(_TOOL, f"--bootstrap-server={broker.bootstrap}", *arguments)
