"""The guarantees that a negative control can take away."""

from __future__ import annotations

from enum import StrEnum


class Broken(StrEnum):
    """What is taken away."""

    NO_FENCE = "no-fence"
    EARLY_ACK = "early-ack"
    NO_TRANSACTION = "no-transaction"


VICTIMS = {
    Broken.NO_FENCE: ("batcher", "aggregator"),
    Broken.EARLY_ACK: ("worker", "batcher"),
    Broken.NO_TRANSACTION: ("worker", "webhook"),
}
"""The roles that each mode breaks; faults of a broken run hit only these."""
