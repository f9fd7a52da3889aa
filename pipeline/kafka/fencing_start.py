"""What a single node's restart after a crash begins with: its controller alone, until the broker of before is fenced.

A node that is its cluster's only controller comes back believing that its broker still leads every partition. Kafka
then loads its coordinators, fences the old broker, unloads them, and loads them again, within a second. A load that is
still under way when the next one begins can end as if it were the next one: groups without their offsets, transactions
that are loaded for ever (seen in Kafka 4.4.0). Where other controllers live on, the old broker is long fenced when it
comes back; this does the same for a node alone.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.child_process import Child, last_lines, signal_group, spawn
from pipeline.errors import BrokerDownError
from pipeline.kafka.broker_config import Node, write_controller_properties

_ACTIVE, _FENCED = "Performing controller activation", "Fencing broker"
_TELL = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller=info"
_WITHIN, _AFTER_ACTIVATION = 60.0, 3.0
"""Seconds. One that crashed before it served is fenced already."""
_APPENDED = 0.5
"""Seconds until what the controller tells is in its log too: it gathers records for 25 ms."""
_LOG_LINES = 20


def fence_old_broker(node: Node, command: Sequence[str]) -> None:
    """Run the node's controller alone until it has fenced the broker that crashed. Blocking, about two seconds.

    Args:
        command: Java with its options and class path.

    Raises:
        BrokerDownError: the controller does not start; carries the last lines of its log.
    """
    write_controller_properties(node)
    log = node.folder / "fencing.log"
    log.unlink(missing_ok=True)
    child = spawn([*command, _TELL, "-Xmx256m", "kafka.Kafka", str(node.controller_properties)], log)
    try:
        if not _told(log, _ACTIVE, child, _WITHIN):
            raise BrokerDownError(
                f"Kafka's controller does not start; the end of its log:\n{last_lines(log, _LOG_LINES)}"
            )
        if _told(log, _FENCED, child, _AFTER_ACTIVATION):
            time.sleep(_APPENDED)
    finally:
        signal_group(child, signal.SIGKILL)
        child.wait()


def _told(log: Path, what: str, child: Child, seconds: float) -> bool:
    """Whether the log tells it within so many seconds."""
    deadline = time.monotonic() + seconds
    while what not in log.read_text(errors="replace"):
        if child.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
