"""The rules and the dashboard that are shipped, and the metrics that they ask for."""

from __future__ import annotations

import re
from pathlib import Path

OPS = Path(__file__).resolve().parents[1] / "ops"
RULES = OPS / "prometheus" / "alerts.yml"
DASHBOARD = OPS / "grafana" / "dashboards" / "tallystream.json"
_SUFFIX = re.compile(r"_(total|bucket|sum|count)$")


def family(name: str) -> str:
    """A sample's metric."""
    return _SUFFIX.sub("", name)


def asked(text: str) -> set[str]:
    """The metrics that rules or panels ask for."""
    return {family(name) for name in re.findall(r"\btallystream_\w+", text)}
