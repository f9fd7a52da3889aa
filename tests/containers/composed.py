"""The compose file as it is shipped, under a name and on ports of its own."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.free_ports import HOST, free_ports

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ("gateway", "batcher", "worker", "aggregator", "webhook")
SERVICES = ("kafka", "registry", *AGENTS)


def compose_command() -> list[str]:
    """How compose is called here; empty: no engine answers, or there is no compose."""
    if shutil.which("docker") is None or _rc(["docker", "info"]):
        return []
    if not _rc(["docker", "compose", "version"]):
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


@dataclass(frozen=True, slots=True)
class Composed:
    """A project of containers.

    Attributes:
        kafka, gateway: where they are for this machine.
    """

    command: Sequence[str]
    env: dict[str, str]
    kafka: str
    gateway: str

    def run(self, *arguments: str) -> str:
        """Compose's output; what it says on the way goes to the test's own."""
        print("compose", *arguments, file=sys.stderr, flush=True)
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"compose {' '.join(arguments)} ended with {done.returncode}"
        return done.stdout

    def container(self, service: str) -> str:
        (found,) = self.run("ps", "-q", service).split()
        return found

    def healthy(self, service: str) -> bool:
        """Whether it runs, and its own check says that it is well."""
        form = "{{.State.Running}} {{.State.Health.Status}}"
        found = subprocess.run(
            ["docker", "inspect", "-f", form, self.container(service)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return found.stdout.split() == ["true", "healthy"]

    def kill(self, service: str) -> None:
        """``kill -9``, and another start: an engine takes a kill that it is asked for as a wish, and starts nothing."""
        container = self.container(service)
        subprocess.run(
            ["docker", "kill", "--signal", "KILL", container], check=True, stdout=subprocess.DEVNULL
        )
        subprocess.run(["docker", "start", container], check=True, stdout=subprocess.DEVNULL)

    def callbacks(self) -> list[dict[str, str]]:
        """What the receiver has had."""
        log = ["docker", "logs", self.container("receiver")]
        said = subprocess.run(log, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [json.loads(line) for line in said.splitlines()]


@contextmanager
def composed() -> Generator[Composed]:
    """Build the images, and take everything away again; the images stay."""
    command = compose_command()
    gateway, kafka = free_ports(2)
    env = os.environ | {
        "COMPOSE_PROJECT_NAME": f"tallystream-proof-{uuid.uuid4().hex[:6]}",
        "COMPOSE_FILE": "docker-compose.yml:tests/containers/proof.yml",
        "GATEWAY_PORT": str(gateway),
        "KAFKA_PORT": str(kafka),
        "TALLYSTREAM_WEBHOOK_SECRET": "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    project = Composed(command, env, f"localhost:{kafka}", f"http://{HOST}:{gateway}")
    try:
        project.run("build", "kafka", "registry", "topics", "worker")
        yield project
    finally:
        project.run("down", "--volumes", "--timeout", "10")


def _rc(command: Sequence[str]) -> int:
    return subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    ).returncode
