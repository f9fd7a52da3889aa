"""For agents that are run with a part exchanged: the consumers that they make, kept in reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer

consumers: list[Consumer] = []
"""In the order of their making."""


def keeping(make: Callable[..., Consumer]) -> Callable[..., Consumer]:
    """The factory of consumers, each of which is kept in ``consumers`` as well."""

    def made(*args: Any) -> Consumer:
        consumers.append(make(*args))
        return consumers[-1]

    return made
