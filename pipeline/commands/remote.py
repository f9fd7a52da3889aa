"""What commands share that work over a gateway: which one, what a task's events look like, and its result."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from pipeline.commands.console import err
from pipeline.commands.show import one_line
from pipeline.errors import ConfigError, GatewayDownError
from pipeline.events import (
    Chain,
    ErrorInfo,
    FinishReason,
    HopTimings,
    Kind,
    Mode,
    Result,
    Role,
    Status,
    Usage,
    Vote,
)
from pipeline.health_server import read_agents
from pipeline.http_client import Document, HttpClient, Remote
from pipeline.running import read_running
from pipeline.settings import load_settings
from pipeline.stack import GATEWAY

_TRIES, _PAUSE = 50, 0.2
_URL, _KEY = "TALLYSTREAM_URL", "TALLYSTREAM_KEY"
Url = Annotated[
    str,
    typer.Option(
        envvar=_URL, metavar="URL", help="A gateway's address, to work over HTTP.", show_default=False
    ),
]
Key = Annotated[
    str,
    typer.Option(
        envvar=_KEY,
        metavar="KEY",
        help=f"Its API key; others on this machine can not see it in {_KEY}, as they can here.",
        show_default=False,
    ),
]


def gateway_for(url: str, key: str) -> Remote:
    """The gateway that is named, or the one that runs on this machine.

    Raises:
        ConfigError: neither is there; says what to do.
    """
    if url:
        return Remote(url, key)
    settings = load_settings()
    settings = load_settings(**(read_running(settings) or {}))
    for agent in read_agents(settings):
        if agent.name.startswith(f"{GATEWAY}-") and agent.body:
            return Remote(agent.url.removesuffix("/healthz"), key)
    raise ConfigError(f"no gateway runs on this machine: start one with `tallystream up`, or set {_URL}")


def command_for(name: str, request_id: str, remote: Remote) -> str:
    """The command by which somebody goes on; never with the key, which would be in the shell's history."""
    where = "" if os.environ.get(_URL) == remote.url else f" --url {shlex.quote(remote.url)}"
    return f"tallystream {name} {shlex.quote(request_id)}{where}"


def follow(
    client: HttpClient,
    request_id: str,
    *,
    within: float | None = None,
    last: str = "result",
    seen: Callable[[str, str, Any], None] = lambda name, place, data: None,
) -> bool:
    """Show how a task comes along.

    Args:
        within: seconds, after which it is left.
        last: the event behind which no more is waited for; without it ``end`` is.
        seen: called with each event's name, id and data.

    Returns:
        whether the task has ended.
    """
    with err.status("waiting for the first sample …") as status:
        for event in client.events(request_id, within=within):
            data = json.loads(event.data)
            seen(event.name, event.id, data)
            if event.name == "votes":
                status.update(leading(data["votes_in"], data["leader"] or ""))
            elif event.name in (last, "end"):
                return True
    return False


def ended_task(client: HttpClient, request_id: str) -> Document:
    """The document of a task that has ended, with its samples; of several gateways one may be a moment behind.

    Raises:
        GatewayDownError: it is for longer.
    """
    for _ in range(_TRIES):
        task = client.task(request_id, "samples")
        if Status(task["status"]).terminal:
            return task
        time.sleep(_PAUSE)
    raise GatewayDownError(f"the gateway at {client.url} does not know yet that {request_id} has ended")


def leading(count: int, leader: str) -> str:
    return f"{count} votes, leading: {one_line(leader, 50)} …"


def result_of(task: Document) -> Result:
    """The result of a task's document that includes its samples, as far as that has it."""
    usage, timings = task["usage"], task["timings"]
    return Result(
        request_id=task["id"],
        run=task["run"],
        revision=0,
        status=Status(task["status"]),
        tenant=task["tenant"],
        priority=task["priority"],
        mode=Mode(task["mode"]),
        kind=Kind(task["kind"]),
        answer=task["answer"],
        chosen_sample=task["chosen_sample"],
        confidence=task["confidence"],
        votes=msgspec.convert(task["votes"], tuple[Vote, ...]),
        reasoning=tuple(_chain(sample) for sample in task["samples"]),
        usage=msgspec.convert(usage, Usage),
        timings=HopTimings(**{name: _ms(at) for name, at in timings.items()}),
        clarifying_question=task["clarifying_question"],
        error=msgspec.convert(task["error"], ErrorInfo | None),
        metadata=task["metadata"],
        why=task["why"],
    )


def _chain(sample: Document) -> Chain:
    return Chain(
        sample_index=sample["index"],
        role=Role(sample["role"]),
        path=sample["path"],
        text=sample["text"],
        answer=sample["answer"],
        score=sample["score"] or 0.0,
        finish_reason=FinishReason(sample["finish_reason"]),
        note=sample["note"] or "",
    )


def _ms(text: str | None) -> Any:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)
