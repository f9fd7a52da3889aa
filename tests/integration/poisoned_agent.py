"""Runs an agent that SIGKILLs itself when it decodes a record with its marker: ``poisoned_agent.py NAME``."""

from __future__ import annotations

import os
import runpy
import signal
import sys

from pipeline.events import Event
from pipeline.kafka.codec import Codec


def marker(agent: str) -> str:
    """What in a record's value kills this agent."""
    return f"poison-for-{agent}"


def deadly(agent: str) -> str:
    """What it looks for; the aggregator in a sample's text, not in the question, which other records hold too."""
    return f"answer is {marker(agent)}" if agent == "aggregator" else marker(agent)


def _poison(deadly: bytes) -> None:
    decode = Codec.decode

    def decode_or_die(self: Codec, data: bytes) -> Event:
        if deadly in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return decode(self, data)

    Codec.decode = decode_or_die


if __name__ == "__main__":
    name = sys.argv.pop()
    _poison(deadly(name).encode())
    runpy.run_module(f"agents.{name}", run_name="__main__")
