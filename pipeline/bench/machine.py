"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.kafka.kafka_jars import KAFKA_VERSION

_PACKAGES = (
    "confluent-kafka",
    "faust-streaming",
    "aiokafka",
    "fastavro",
    "celery",
    "redis",
    "torch",
    "transformers",
)


def describe_machine() -> dict[str, Any]:
    """Cores, memory, processor and versions; ``load`` is the run queue of the last minute, before the run."""
    return {
        "cores": os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cpu": _cpu_model(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
