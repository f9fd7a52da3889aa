"""``tallystream doctor``: what is installed, reachable, and mismatched."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from pipeline.admin import check_topics
from pipeline.commands.console import out
from pipeline.errors import TallystreamError
from pipeline.health import HealthStatus
from pipeline.health_server import AgentHealth, read_agents
from pipeline.kafka.clients import admin_client
from pipeline.running import read_running
from pipeline.settings import Settings, load_settings

_FITTING = {"click": "8.4", "huggingface-hub": "2"}
"""Below these versions; above them Faust and transformers do not go together."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: ``good`` is ``None`` when it is worth knowing, but no fault."""

    name: str
    good: bool | None
    text: str


def doctor() -> None:
    """Look at what the pipeline needs and say what is missing, and how to mend it.

    Exit codes: 0 nothing is missing, 1 something is.
    """
    settings = load_settings()
    findings = [
        _python(),
        *_packages(("faust-streaming", "confluent-kafka", "fastavro", "aiohttp"), needed=True),
        *_packages(("torch", "transformers", "accelerate", "gguf"), needed=False),
        *_mismatches(),
        _program(
            "java",
            ["java", "-version"],
            "install a Java 17 runtime (Debian: openjdk-17-jre-headless)",
            settings,
        ),
        _program("mvn", ["mvn", "-version"], "install Apache Maven (Debian: maven)", settings),
        _cached("Kafka's jars", settings, "kafka"),
        _cached("default model", settings, "models"),
        *_broker(settings),
        *_registry(settings),
        *_agents(settings),
    ]
    for finding in findings:
        mark, style = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}[finding.good]
        out.print(f"{mark} {finding.name:18} {finding.text}", style=style, markup=False)
    raise typer.Exit(1 if any(finding.good is False for finding in findings) else 0)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding("Python", good, version if good else f"{version}; 3.11 or newer is needed")


def _packages(names: tuple[str, ...], *, needed: bool) -> list[Finding]:
    found: list[Finding] = []
    for name in names:
        try:
            found.append(Finding(name, True, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            extra = "tallystream" if needed else "tallystream[worker]"
            found.append(Finding(name, False if needed else None, f"not installed: pip install '{extra}'"))
    return found


def _mismatches() -> list[Finding]:
    found: list[Finding] = []
    for name, limit in _FITTING.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if _numbers(version) >= _numbers(limit):
            found.append(Finding(name, False, f"{version} does not fit; install one below {limit}"))
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _program(name: str, argv: list[str], fix: str, settings: Settings) -> Finding:
    needed = False if not settings.bootstrap else None
    if shutil.which(name) is None:
        return Finding(name, needed, f"not found: {fix}; or set TALLYSTREAM_BOOTSTRAP")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr + done.stdout).splitlines()
    first = next((line for line in lines if "ersion" in line or "Maven" in line), "")
    return Finding(name, True if done.returncode == 0 else needed, first.strip())


def _cached(name: str, settings: Settings, folder: str) -> Finding:
    path = settings.home / folder
    there = path.is_dir() and any(path.iterdir())
    return Finding(name, True if there else None, "in the cache" if there else "fetched when first needed")


def _broker(settings: Settings) -> list[Finding]:
    running = read_running(settings)
    if not settings.bootstrap and running is None:
        return [Finding("Kafka", None, "none is set and none runs here; `tallystream up` starts one")]
    if not settings.bootstrap and running is not None:
        settings = load_settings(**running)
    where = settings.bootstrap

    def brokers() -> str:
        return f"{len(admin_client(settings).list_topics(timeout=5).brokers)} brokers at {where}"

    reached = _tried("Kafka", brokers, f"no answer from {where}")
    if not reached.good:
        return [reached]

    def topics() -> str:
        if problems := check_topics(settings):
            raise TallystreamError("; ".join(problems) + "; run: tallystream topics create")
        return "as declared"

    return [reached, _tried("topics", topics, "")]


def _registry(settings: Settings) -> list[Finding]:
    if not settings.registry_url:
        return [Finding("schema registry", None, "none set: records are Avro single-object encoded")]

    def subjects() -> str:
        with urllib.request.urlopen(f"{settings.registry_url.rstrip('/')}/subjects", timeout=5):
            return settings.registry_url

    return [_tried("schema registry", subjects, f"no answer from {settings.registry_url}")]


def _agents(settings: Settings) -> list[Finding]:
    """The agents of this pipeline that run on this machine, and how they are."""
    running = read_running(settings)
    if not settings.bootstrap and running is not None:
        settings = load_settings(**running)
    return [_agent(agent) for agent in read_agents(settings)]


def _agent(agent: AgentHealth) -> Finding:
    status = str(agent.body.get("status", ""))
    if not status:
        return Finding(agent.name, False, f"no answer from {agent.url}; look at its log")
    partitions: list[dict[str, Any]] = agent.body.get("partitions", [])
    lag = sum(each["lag"] or 0 for each in partitions)
    text = agent.body.get("reason") or f"{status}, partitions: {len(partitions)}, lag: {lag}"
    if agent.body.get("kafka") == "away":
        text = f"{text}; Kafka does not answer it"
    good = {HealthStatus.OK: True, HealthStatus.STARTING: None}.get(HealthStatus(status), False)
    return Finding(agent.name, good, f"{text} · {agent.url}")


def _tried(name: str, check: Callable[[], str], problem: str) -> Finding:
    try:
        return Finding(name, True, check())
    except TallystreamError as error:
        return Finding(name, False, error.message)
    except Exception as error:  # whatever a client raises, it is a finding
        return Finding(name, False, f"{problem}: {error}" if problem else str(error))
