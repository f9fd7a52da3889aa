"""What each process has to be allowed on a Kafka that asks who one is, and nothing more.

Every principal may be the same on a Kafka of its own; on a shared one, each process can have its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.kafka.clients import READER
from pipeline.kafka.command_writer import Command
from pipeline.topics import (
    CONTROL,
    DEAD_LETTERS,
    DELIVERIES,
    LANES,
    PROGRESS,
    READ_BY,
    REQUESTS,
    RESULTS,
    SAMPLES,
    SESSIONS,
    TURNS,
    windows_changelog,
)


class Resource(StrEnum):
    """What a permission is about."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class Operation(StrEnum):
    """What is permitted; ``read`` and ``write`` imply ``describe``."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing that one process may do.

    Attributes:
        prefixed: the name is the beginning of the names that are meant.
    """

    role: str
    operation: Operation
    resource: Resource
    name: str
    prefixed: bool = False


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a process does to topics, and under which transactional ids; a sink also reads what it wrote.

    Attributes:
        inputs: after which the ids of a sink are named, one a partition.
        commands: whose ids it uses.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()


OPERATOR: Final = "operator"
"""Who runs the commands. A gateway that is to send dead letters again from its page needs this too."""
_NEEDS: Final[Mapping[str, _Needs]] = {
    "batcher": _Needs(
        (REQUESTS, CONTROL, TURNS, SESSIONS, SAMPLES, DEAD_LETTERS, *LANES),
        (SAMPLES, TURNS, SESSIONS, DEAD_LETTERS, *LANES),
        (REQUESTS, CONTROL, TURNS),
    ),
    "worker": _Needs((*LANES, CONTROL), (SAMPLES, PROGRESS, DEAD_LETTERS)),
    "aggregator": _Needs(
        (SAMPLES, RESULTS, DEAD_LETTERS, *LANES),
        (RESULTS, CONTROL, TURNS, PROGRESS, DEAD_LETTERS, *LANES),
        (SAMPLES,),
    ),
    "webhook": _Needs((RESULTS, DELIVERIES), (DELIVERIES, DEAD_LETTERS)),
    "gateway": _Needs(
        (REQUESTS, SAMPLES, RESULTS, PROGRESS, DELIVERIES, DEAD_LETTERS),
        (REQUESTS, CONTROL, DELIVERIES),
        commands=(Command.RESEND_DELIVERIES,),
    ),
    OPERATOR: _Needs(
        (REQUESTS, CONTROL, TURNS, SESSIONS, SAMPLES, RESULTS, PROGRESS, DELIVERIES, DEAD_LETTERS, *LANES),
        (REQUESTS, CONTROL, TURNS, SAMPLES, RESULTS, DELIVERIES, DEAD_LETTERS, *LANES),
        commands=tuple(Command),
    ),
}


def permissions(app: str) -> Iterator[Permission]:
    """All that the processes of one pipeline need; its topics are made by somebody who may do more.

    Args:
        app: ``settings.app``, with which groups and transactional ids begin.
    """
    for role, needs in _NEEDS.items():
        changelog = (windows_changelog(app),) if role == "aggregator" else ()
        for topic in (*needs.reads, *changelog):
            yield Permission(role, Operation.READ, Resource.TOPIC, topic)
        for topic in (*needs.writes, *changelog):
            yield Permission(role, Operation.WRITE, Resource.TOPIC, topic)
        # An operator shows how far the agents have read, and sets it.
        groups = READ_BY if role == OPERATOR else (role,) if role in READ_BY else ()
        for group in (*groups, READER):
            yield Permission(role, Operation.READ, Resource.GROUP, f"{app}-{group}")
        own = needs.inputs or ((role,) if role in READ_BY else ())
        for name in own:
            yield Permission(
                role, Operation.WRITE, Resource.TRANSACTIONAL_ID, f"{app}-{name}-", prefixed=True
            )
        for name in needs.commands:
            yield Permission(role, Operation.WRITE, Resource.TRANSACTIONAL_ID, f"{app}-{name}")
