"""``tallystream ask``: one question, its answer, the votes and the chains."""

from __future__ import annotations

import getpass
import time
from typing import Annotated

import msgspec
import typer

from pipeline.client import RequestProducer, TopicFollower
from pipeline.commands.ask_gateway import ask_gateway, not_yet
from pipeline.commands.console import connected_settings, err, out
from pipeline.commands.remote import Key, Url, leading
from pipeline.commands.show import one_line, result_view
from pipeline.errors import TallystreamError
from pipeline.events import (
    CachePolicy,
    Event,
    InferenceRequest,
    Mode,
    Progress,
    Result,
    SamplingOverrides,
    Session,
    Status,
)
from pipeline.http_client import Remote
from pipeline.ids import new_request_id
from pipeline.kafka.connect import make_codec
from pipeline.telemetry import now_ms
from pipeline.topics import PROGRESS, RESULTS


def session_of(text: str) -> Session:
    """``USER/SESSION``; a session without a user is the account's that asks."""
    user, _, session = text.rpartition("/")
    return Session(user or getpass.getuser(), session)


def ask(
    text: Annotated[str, typer.Argument(help="The question.")],
    mode: Annotated[Mode, typer.Option(help="How many samples are drawn, and how.")] = Mode.STANDARD,
    priority: Annotated[int, typer.Option(min=0, max=5, help="0 is served first.")] = 3,
    n: Annotated[int | None, typer.Option(help="Number of samples instead of the mode's.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Longest sample, in tokens.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the samples repeatable.")] = None,
    cache: Annotated[
        CachePolicy, typer.Option(help="allow: in mode fast, an answer that was given before will do.")
    ] = CachePolicy.NONE,
    session: Annotated[
        Session | None,
        typer.Option(
            parser=session_of, metavar="[USER/]SESSION", help="The conversation that it goes on with."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the result.")] = 450.0,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """Ask one question and print its answer, the votes and the chains.

    With --session the turns before it are its history, and it waits for one that still runs. With --url it is asked
    over that gateway, and --json prints the task's document; else over Kafka.

    Exit codes: 0 an answer came, 1 the request failed or was cancelled, 2 it could not be asked, 3 no result in time.
    """
    request = InferenceRequest(
        request_id=new_request_id(now_ms()),
        prompt=text,
        created_at=now_ms(),
        priority=priority,
        mode=mode,
        sampling=SamplingOverrides(n=n, max_new_tokens=max_tokens, seed=seed),
        cache=cache,
        session=session,
    )
    if url:
        raise typer.Exit(ask_gateway(Remote(url, key), request, timeout, json=json))
    settings = connected_settings()
    codec = make_codec(settings)
    follower = TopicFollower(settings, codec, [RESULTS, PROGRESS])
    producer = RequestProducer(settings, codec)
    refused: list[str] = []
    producer.send(request, lambda _, error: refused.append(error.str()) if error else None)
    producer.flush()
    if refused:
        raise TallystreamError(f"Kafka refused the request: {refused[0]}")
    final: list[Result] = []
    with err.status("waiting for the first sample …") as status:

        def seen(_: str, event: Event) -> bool:
            if isinstance(event, Progress) and event.request_id == request.request_id and event.votes:
                status.update(leading(sum(v.count for v in event.votes), event.votes[0].answer))
            if isinstance(event, Result) and event.request_id == request.request_id:
                if event.status is Status.FIRST_ANSWER and not json:
                    err.print(f"first answer: {one_line(event.answer or '', 100)}", style="cyan")
                elif event.status.terminal:
                    final.append(event)
            return bool(final)

        follower.until(seen, deadline=time.monotonic() + timeout)
    follower.close()
    if not final:
        err.print(not_yet(request.request_id, timeout), style="yellow")
        raise typer.Exit(3)
    if json:
        out.print_json(msgspec.json.encode(final[0]).decode())
    else:
        out.print(result_view(final[0]))
    raise typer.Exit(1 if final[0].status in (Status.FAILED, Status.CANCELLED) else 0)
