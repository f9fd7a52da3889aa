"""The session's Kafka in a container, from the image that is shipped, where an engine answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.image import DockerImage

from pipeline.free_ports import free_ports
from pipeline.kafka.clients import base_config
from pipeline.kafka.reach import unreached
from pipeline.settings import Settings, load_settings
from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "TALLYSTREAM_TEST_KAFKA"
_START, _LOOK = 120, 5.0
_KAFKAS_PORT = 9094

Say = Callable[[str], None]


def wanted(settings: Settings, say: Say) -> bool:
    """Whether the session's Kafka is to be a container: when an engine answers, if the variable says nothing."""
    asked = os.environ.get(VARIABLE, "")
    assert asked in ("", "container", "local"), f"{VARIABLE} is {asked!r}; container or local"
    if settings.bootstrap or asked == "local":
        return False
    if asked == "container":
        return True
    try:
        docker.from_env().ping()
    except DockerException:
        return False
    say(f"a container engine answers, so Kafka is a container ({VARIABLE}=local: it is not)")
    return True


@contextmanager
def kafka_container(say: Say) -> Generator[str]:
    """Build the image if it is not there, and run it; yields the bootstrap address."""
    testcontainers_config.ryuk_disabled = (
        True  # it would be one more image to pull; the block's end removes ours
    )
    say("building the image tallystream-kafka …")
    image = DockerImage(
        ROOT,
        tag="tallystream-kafka",
        dockerfile_path="ops/docker/Dockerfile",
        clean_up=False,
        target="kafka",
        network_mode="host",
    ).build()
    (port,) = free_ports(1)
    # A broker checks transactions with itself, by the name that it has for other containers.
    container = (
        DockerContainer(str(image)).with_env("KAFKA_HOST", "localhost").with_env("KAFKA_PORT", str(port))
    )
    container.with_bind_ports(_KAFKAS_PORT, port)
    with container:
        bootstrap = f"localhost:{port}"
        config = base_config(load_settings(bootstrap=bootstrap))
        eventually(lambda: unreached(config, 1, _LOOK) is None, _START)
        say(f"broker: a container at {bootstrap}")
        yield bootstrap
