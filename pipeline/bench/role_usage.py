"""Processor time and memory of each role of a running pipeline."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pipeline.child_process import resident_bytes
from pipeline.kafka.local_broker import LocalBroker
from pipeline.supervisor import Supervisor

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 2**20


class RoleUsage:
    """Of the agents that a supervisor runs, and of their broker."""

    def __init__(self, supervisor: Supervisor, broker: LocalBroker) -> None:
        self._supervisor, self._broker = supervisor, broker

    def cpu_seconds(self) -> Counter[str]:
        """By role, since each process started."""
        return Counter({role: sum(map(_cpu_seconds, pids)) for role, pids in self._pids().items()})

    def resident_mib(self) -> dict[str, float]:
        """By role, now."""
        return {role: sum(map(resident_bytes, pids)) / _MIB for role, pids in self._pids().items()}

    def _pids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"broker": list(self._broker.pids.values())}
        for name, pid in self._supervisor.pids.items():
            found.setdefault(name.partition("-")[0], []).append(pid)
        return found


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
